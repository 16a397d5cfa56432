import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
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

/** How long a look at the file and the claim may take; a lock of a process that was killed in it is older. */
const LOCK_LIMIT_MS = 5_000;
const LOCK_RETRY_MS = 20;

/**
 * Claims the folder for this process; readable for the owner only. Throws TURNO_ALREADY_RUNNING when another living
 * process has it; a file that a killed one left behind is taken over.
 */
export async function claimUpFile(path: string): Promise<UpClaim> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const own = { pid: process.pid, stamp: (await inspectProcess(process.pid))?.stamp ?? "" };
  const write = async (facts: Omit<UpFacts, "pid">) => {
    const draft = `${path}.${process.pid}`;
    await writeFile(draft, `${JSON.stringify({ ...own, ...facts })}\n`, { mode: 0o600 });
    await rename(draft, path);
  };
  await underLock(`${path}.lock`, async () => {
    const found = parse((await readText(path)) ?? "");
    if (found !== null && (await isRunning(found))) throw alreadyRunning(path, found);
    await write({ url: null, databaseUrl: null });
  });
  return {
    tell: write,
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

/** One at a time among all processes: making a folder succeeds for one of them. */
async function underLock(lock: string, work: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      await mkdir(lock);
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      const since = (await stat(lock).catch(() => null))?.mtimeMs ?? Date.now();
      if (Date.now() - since > LOCK_LIMIT_MS) await rm(lock, { recursive: true, force: true });
      else await delay(LOCK_RETRY_MS);
    }
  }
  try {
    await work();
  } finally {
    await rm(lock, { recursive: true, force: true });
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
