import { readdir, readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { type Import, readImports, type SourceScan, scanSource } from "./source-scan.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export interface SourceFile extends SourceScan {
  /** From the project's root, with forward slashes. */
  readonly path: string;
  readonly imports: readonly Import[];
}

/** Paths of all files below the folders, from the project's root. */
export async function listPaths(folders: readonly string[]): Promise<string[]> {
  const lists = await Promise.all(
    folders.map(async (folder) => {
      const entries = await readdir(join(ROOT, folder), { recursive: true, withFileTypes: true });
      const prefix = join(ROOT, "/");
      return entries
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(prefix.length).replaceAll("\\", "/"));
    }),
  );
  return lists.flat().sort();
}

export async function readSources(folders: readonly string[]): Promise<SourceFile[]> {
  const paths = (await listPaths(folders)).filter((path) => /\.tsx?$/.test(path));
  return Promise.all(
    paths.map(async (path) => {
      const scan = scanSource(await readFile(join(ROOT, path), "utf8"));
      return { path, ...scan, imports: readImports(scan) };
    }),
  );
}

/** The project's file an import names, or null for a package. */
export function resolveImport(from: string, specifier: string): string | null {
  return specifier.startsWith(".") ? posix.join(posix.dirname(from), specifier) : null;
}
