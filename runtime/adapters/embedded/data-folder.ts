import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFile, chmod, chown, mkdir, mkdtemp, readdir, readFile, realpath, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { describeError, TurnoError } from "../../core/errors.ts";
import { type Account, canEnter, chooseAccount, openStateFolder } from "./account.ts";
import type { Binaries } from "./binaries.ts";
import { existsInTable } from "./process-table.ts";

/** Where the data lies, and whom the server runs as. */
export interface DataFolder {
  readonly dataDir: string;
  readonly account: Account | null;
}

/** Longest socket path that every platform takes: 104 bytes with the closing zero on macOS. */
const SOCKET_PATH_LIMIT = 103;
const SOCKET_NAME = ".s.PGSQL.5432";
const SHARED_HOME = "/var/lib/turno";

/**
 * Settles where the data goes: the folder asked for, or as root, where the database's account cannot come there,
 * `/var/lib/turno/<hash of the folder>`.
 */
export async function placeDataFolder(requested: string): Promise<DataFolder> {
  const wanted = resolve(requested);
  try {
    await mkdir(dirname(wanted), { recursive: true, mode: 0o700 });
    // The server's own idea of its folder has links resolved.
    const dataDir = await realpath(wanted).catch(async () => join(await realpath(dirname(wanted)), basename(wanted)));
    const account = await chooseAccount(dataDir);
    if (account === null) return { dataDir, account };
    await openStateFolder(dirname(dataDir), account);
    if (await canEnter(dirname(dataDir), account)) return { dataDir, account };
    const hash = createHash("sha256").update(dataDir).digest("hex").slice(0, 16);
    const home = join(SHARED_HOME, hash);
    await mkdir(home, { recursive: true });
    await chmod(SHARED_HOME, 0o755);
    await chmod(home, 0o711);
    const placed = join(home, "postgres");
    return { dataDir: placed, account: await chooseAccount(placed) };
  } catch (error) {
    throw unusable(wanted, describeError(error), error);
  }
}

/** Makes a cluster when there is none. Whoever comes second, or finds one cut off half-way, is not disturbed by it. */
export async function ensureCluster(
  folder: DataFolder,
  options: { readonly binaries: Binaries; readonly durable: boolean; readonly signal: AbortSignal },
): Promise<void> {
  const { dataDir } = folder;
  if (await hasCluster(dataDir, options.binaries)) return;
  const unfinished = `${dataDir}.init-${process.pid}`;
  try {
    await removeAbandoned(dataDir);
    await makeFolder(unfinished, folder.account);
    await runInitdb(unfinished, folder.account, options);
    await appendFile(join(unfinished, "postgresql.conf"), "\ninclude 'turno.conf'\n");
    await rename(unfinished, dataDir);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    options.signal.throwIfAborted();
    if (["ENOTEMPTY", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "")) return;
    if (error instanceof TurnoError) throw error;
    throw unusable(dataDir, describeError(error), error);
  }
}

/** The socket's folder: the data folder itself, or one under the temporary folder where that path is too long. */
export async function chooseSocketDir({ dataDir, account }: DataFolder): Promise<string> {
  if (Buffer.byteLength(join(dataDir, SOCKET_NAME)) <= SOCKET_PATH_LIMIT) return dataDir;
  const folder = await mkdtemp(join(tmpdir(), "turno-socket-"));
  if (account !== null) await chown(folder, account.uid, account.gid);
  return folder;
}

/** Removes a socket folder that {@link chooseSocketDir} made. */
export async function removeSocketDir(socketDir: string): Promise<void> {
  if (basename(socketDir).startsWith("turno-socket-")) await rm(socketDir, { recursive: true, force: true });
}

async function hasCluster(dataDir: string, binaries: Binaries): Promise<boolean> {
  const version = await readFile(join(dataDir, "PG_VERSION"), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw unusable(dataDir, describeError(error), error);
  });
  if (version === null) {
    const entries = await readdir(dataDir).catch(() => []);
    if (entries.length === 0) return false;
    throw unusable(dataDir, "it holds other files and no PostgreSQL data");
  }
  if (version.trim() === binaries.major) return true;
  throw new TurnoError(
    "TURNO_EMBEDDED_START",
    `the data in ${dataDir} was made by PostgreSQL ${version.trim()}, and the installed binaries are version ${binaries.major}`,
    {
      hint: "carry the data over with pg_dump and the old binaries, or move the folder away to begin with an empty database",
    },
  );
}

async function makeFolder(path: string, account: Account | null): Promise<void> {
  await mkdir(path, { mode: 0o700 });
  await chmod(path, 0o700);
  if (account !== null) await chown(path, account.uid, account.gid);
}

async function removeAbandoned(dataDir: string): Promise<void> {
  const prefix = `${basename(dataDir)}.init-`;
  for (const entry of await readdir(dirname(dataDir))) {
    if (!entry.startsWith(prefix) || existsInTable(Number(entry.slice(prefix.length)))) continue;
    await rm(join(dirname(dataDir), entry), { recursive: true, force: true });
  }
}

function runInitdb(
  dataDir: string,
  account: Account | null,
  options: { readonly binaries: Binaries; readonly durable: boolean; readonly signal: AbortSignal },
): Promise<void> {
  const locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"];
  const args = ["-D", dataDir, "--username=turno", "--auth=trust", "--no-instructions", ...locale];
  if (!options.durable) args.push("--no-sync");
  return new Promise((done, fail) => {
    const child = spawn(options.binaries.initdb, args, {
      ...account,
      cwd: dataDir,
      env: serverEnvironment(),
      stdio: ["ignore", "pipe", "pipe"],
      signal: options.signal,
    });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.once("error", fail);
    child.once("close", (code) => {
      if (code === 0) done();
      else
        fail(
          new TurnoError("TURNO_EMBEDDED_START", `initdb ended with ${code} in ${dataDir}: ${whatWentWrong(output)}`),
        );
    });
  });
}

/** Of all that initdb tells the lines that say what is wrong; the last ones when it does not mark them. */
export function whatWentWrong(output: string): string {
  const lines = output.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()]));
  const marked = lines.filter((line) => /\b(FATAL|PANIC|error|ERROR|HINT|DETAIL):/.test(line));
  return (marked.length > 0 ? marked : lines.slice(-3)).join("; ").slice(0, 1_000);
}

/** The environment of the server's programs: nothing of PGDATA, PGPORT and their kind, messages in English. */
export function serverEnvironment(): NodeJS.ProcessEnv {
  const { PATH = "", TMPDIR } = process.env;
  return { PATH, LC_ALL: "C", ...(TMPDIR === undefined ? {} : { TMPDIR }) };
}

function unusable(dataDir: string, found: string, cause?: unknown): TurnoError {
  return new TurnoError("TURNO_EMBEDDED_START", `the database's folder ${dataDir} cannot be used: ${found}`, {
    cause,
    hint: "choose another folder with --data, give this one to the user Turno runs as, or set TURNO_DATABASE_URL to a PostgreSQL server",
  });
}
