import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { existsInTable, inspectProcess } from "../adapters/embedded/process-table.ts";
import { TurnoError } from "../core/errors.ts";

/** What a running `up` tells the other commands of its folder. */
export interface UpFacts {
  readonly pid: number;
  /** The panel's and API's address; null while it starts. */
  readonly url: string | null;
  /**
   * The embedded server's socket, which works only for who may enter its folder; null while it starts, and for a
   * database of the settings, whose address may hold a password.
   */
  readonly databaseUrl: string | null;
}

/** This process as the one `up` of a folder. */
export interface UpClaim {
  /** Replaces what others read, whole. */
  tell(facts: Omit<UpFacts, "pid">): Promise<void>;
  /** Safe to call twice; what another process claimed meanwhile stays. */
  release(): Promise<void>;
}

/** The facts with what tells their process from a later one that got its number. */
interface UpFile extends UpFacts {
  readonly stamp: string;
}

/** Between the creation of the file and its text there is a moment. */
const WRITING_TRIES = 20;
const WRITING_WAIT_MS = 25;

/**
 * Claims the folder for this process; readable for the owner only. Throws TURNO_ALREADY_RUNNING when another living
 * process has it; a file that a killed one left behind is taken over.
 */
export async function claimUpFile(path: string): Promise<UpClaim> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const own = { pid: process.pid, stamp: (await inspectProcess(process.pid))?.stamp ?? "" };
  const textOf = (facts: Omit<UpFacts, "pid">) => `${JSON.stringify({ ...own, ...facts })}\n`;
  const starting = textOf({ url: null, databaseUrl: null });
  for (let tries = 1; !(await createWhole(path, starting)); ) {
    const text = await readText(path);
    if (text === null) continue;
    const found = parse(text);
    if (found !== null && (await isRunning(found))) throw alreadyRunning(path, found);
    if (found === null && tries++ < WRITING_TRIES) await delay(WRITING_WAIT_MS);
    else await moveAway(path, text);
  }
  return {
    async tell(facts) {
      const draft = `${path}.${process.pid}`;
      await writeFile(draft, textOf(facts), { mode: 0o600 });
      await rename(draft, path);
    },
    async release() {
      const found = parse((await readText(path)) ?? "");
      if (found?.pid === own.pid && found.stamp === own.stamp) await rm(path, { force: true });
    },
  };
}

/** Null when no `up` runs here. Throws TURNO_DATABASE_UNREACHABLE when another user's may, whose facts are closed. */
export async function readUpFile(path: string): Promise<UpFacts | null> {
  const text = await readText(path).catch((error: NodeJS.ErrnoException) => {
    throw new TurnoError("TURNO_DATABASE_UNREACHABLE", `whether Turno runs here cannot be read: ${error.message}`, {
      cause: error,
      hint: "run the command as the user that runs turno up, or talk to its server with --server URL",
    });
  });
  const found = text === null ? null : parse(text);
  return found !== null && (await isRunning(found)) ? found : null;
}

async function createWhole(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Two processes may find the same stale file: whoever took another's fresh one away puts it back. */
async function moveAway(path: string, stale: string): Promise<void> {
  const moved = `${path}.stale-${process.pid}`;
  try {
    await rename(path, moved);
    if ((await readText(moved)) === stale) await rm(moved, { force: true });
    else await rename(moved, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw error;
  }
}

function parse(text: string): UpFile | null {
  try {
    const { pid, stamp, url, databaseUrl } = JSON.parse(text) as Partial<Record<keyof UpFile, unknown>>;
    const isTextOrNull = (value: unknown): value is string | null => value === null || typeof value === "string";
    if (typeof pid !== "number" || typeof stamp !== "string" || !isTextOrNull(url) || !isTextOrNull(databaseUrl)) {
      return null;
    }
    return { pid, stamp, url, databaseUrl };
  } catch {
    return null;
  }
}

/** In a container every start has the same number: only with its start does it name a process. */
async function isRunning({ pid, stamp }: UpFile): Promise<boolean> {
  if (process.platform === "win32") return existsInTable(pid);
  return (await inspectProcess(pid))?.stamp === stamp;
}

function alreadyRunning(path: string, { pid, url }: UpFile): TurnoError {
  const folder = dirname(dirname(path));
  return new TurnoError(
    "TURNO_ALREADY_RUNNING",
    `turno up runs here already, with its state in ${folder}, as process ${pid}${url === null ? "" : `, at ${url}`}`,
    { hint: "stop it first, or use another folder" },
  );
}
