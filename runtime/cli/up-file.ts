import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** What a running `up` tells the other commands of its folder. */
export interface UpFacts {
  readonly pid: number;
  /** The panel's and API's address; null while it starts. */
  readonly url: string | null;
  /** The embedded server's socket; it holds no password and works only for who may enter the folder. */
  readonly databaseUrl: string;
}

/** Readable for the owner only, written whole. */
export async function writeUpFile(path: string, facts: UpFacts): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, `${JSON.stringify(facts)}\n`, { mode: 0o600 });
  await rename(draft, path);
}

/** Null when no `up` runs here; a file that a killed one left behind counts as none. */
export async function readUpFile(path: string): Promise<UpFacts | null> {
  try {
    const facts = JSON.parse(await readFile(path, "utf8")) as UpFacts;
    return isAlive(facts.pid) ? facts : null;
  } catch {
    return null;
  }
}

export async function removeUpFile(path: string): Promise<void> {
  await rm(path, { force: true });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
