import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/** The project's folder: Turno tells it, and tests run below it. */
export function projectRoot(): string {
  return process.env.TURNO_PROJECT_ROOT ?? process.cwd();
}

/** A folder given by an environment variable, or its default below the project. */
export function folderFrom(variable: string, fallback: string): string {
  return resolve(projectRoot(), process.env[variable] ?? fallback);
}

/** Writes a file whole or not at all: a reader, or a second attempt after a crash, never sees half of it. */
export async function writeWhole(path: string, content: string | Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const partial = `${path}.partial`;
  await writeFile(partial, content);
  await rename(partial, path);
}
