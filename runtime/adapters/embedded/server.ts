import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, open, rename, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { Account } from "./account.ts";
import type { Binaries } from "./binaries.ts";
import { serverEnvironment } from "./data-folder.ts";
import { disownStaleFile, isPostmasterAlive, readPostmasterFile } from "./postmaster-file.ts";
import { renderSettings } from "./settings.ts";

/** Everything a start of the server needs. */
export interface ServerSite {
  readonly dataDir: string;
  readonly account: Account | null;
  readonly binaries: Binaries;
  readonly socketDir: string;
  readonly durable: boolean;
  readonly logger: Logger;
}

/** One life of the postmaster, ours or found running. */
export interface RunningServer {
  readonly pid: number;
  /** Resolves with how it ended; rejects when the signal aborts first. */
  ended(signal: AbortSignal): Promise<string>;
  /** Sends the signal and waits; false when it still runs after `limitMs`. */
  stop(signal: "SIGINT" | "SIGQUIT", limitMs: number): Promise<boolean>;
}

export type SpawnOutcome =
  | { readonly started: RunningServer }
  /** `locked`: another server, perhaps one just ending, holds the folder. */
  | { readonly started: null; readonly locked: boolean; readonly reason: string };

const POLL_MS = 20;
/** How often a server that is not our child is looked at. */
const WATCH_MS = 500;
/** Crash recovery of a large log takes minutes; while the server works on it there is nothing to gain by giving up. */
const READY_LIMIT_MS = 600_000;
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
const ANSWER_LIMIT_MS = 2_000;
const SLOW_START_MS = 10_000;
const LOG_LIMIT_BYTES = 10 * 1024 * 1024;
const LOCKED = /lock file "postmaster\.pid" already exists|pre-existing shared memory block|Is another postmaster/;

/** The server that serves the folder already, once it is ready; null when there is none. */
export async function adoptServer(site: ServerSite, signal: AbortSignal): Promise<RunningServer | null> {
  const file = await readPostmasterFile(site.dataDir);
  if (file === null) return null;
  if (!(await isPostmasterAlive(site.dataDir, file.pid))) {
    await disownStaleFile(site.dataDir, file.pid);
    return null;
  }
  const isReady = await waitUntilReady(site, {
    pid: file.pid,
    signal,
    isGone: async () => !(await isPostmasterAlive(site.dataDir, file.pid)),
  });
  return isReady ? foundServer(site.dataDir, file.pid) : null;
}

/** Starts the server in a process group of its own: Ctrl-C on the terminal must not reach it before the workers drained. */
export async function spawnServer(site: ServerSite, signal: AbortSignal): Promise<SpawnOutcome> {
  await writeSettings(site);
  const log = await openLog(site.dataDir);
  try {
    const logStart = (await log.stat()).size;
    const child = spawn(site.binaries.postgres, ["-D", site.dataDir], {
      ...site.account,
      cwd: site.dataDir,
      env: serverEnvironment(),
      detached: true,
      stdio: ["ignore", log.fd, log.fd],
    });
    const failure = await once(child, "spawn").then(() => null, describeError);
    if (failure !== null) return { started: null, locked: false, reason: failure };
    child.unref();
    const server = childServer(child);
    const isReady = await waitUntilReady(site, { pid: server.pid, signal, isGone: async () => hasEnded(child) }).catch(
      async (error: unknown) => {
        await server.stop("SIGQUIT", 5_000);
        throw error;
      },
    );
    if (isReady) return { started: server };
    const { buffer, bytesRead } = await log.read(Buffer.alloc(4_096), 0, 4_096, logStart);
    const said = buffer.subarray(0, bytesRead).toString().trim();
    return { started: null, locked: LOCKED.test(said), reason: said === "" ? describeEnd(child) : said };
  } finally {
    await log.close();
  }
}

/** True once postmaster.pid names the process as ready and its socket answers; false when the process is gone first. */
async function waitUntilReady(
  site: ServerSite,
  options: { readonly pid: number; readonly signal: AbortSignal; readonly isGone: () => Promise<boolean> },
): Promise<boolean> {
  const since = performance.now();
  let isTold = false;
  while (!(await options.isGone())) {
    const file = await readPostmasterFile(site.dataDir);
    if (file?.pid === options.pid && file.ready && (await answers(file.socketDir))) return true;
    const waitedMs = performance.now() - since;
    if (waitedMs > READY_LIMIT_MS) return false;
    if (!isTold && waitedMs > SLOW_START_MS) {
      isTold = true;
      site.logger.info("waiting for the embedded PostgreSQL, which recovers or ends", { pid: options.pid });
    }
    await delay(POLL_MS, undefined, { signal: options.signal });
  }
  return false;
}

/**
 * Whether the server answers the first message of a session: a question for encryption (protocol-message-formats,
 * SSLRequest), whose one-byte answer a stopped or dying process does not give, though its socket still takes connections.
 */
function answers(socketDir: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(join(socketDir, ".s.PGSQL.5432"), () => socket.write(SSL_REQUEST));
    const settle = (answered: boolean) => {
      socket.destroy();
      done(answered);
    };
    socket.setTimeout(ANSWER_LIMIT_MS, () => settle(false));
    socket.once("data", () => settle(true));
    socket.once("error", () => settle(false));
    socket.once("close", () => settle(false));
  });
}

async function writeSettings(site: ServerSite): Promise<void> {
  const path = join(site.dataDir, "turno.conf");
  const isInside = site.socketDir === site.dataDir;
  if (!isInside) await mkdir(site.socketDir, { recursive: true, mode: 0o700 });
  await writeFile(path, renderSettings({ durable: site.durable, socketDir: isInside ? "." : site.socketDir }));
  await chmod(path, 0o644);
}

/** The server's log beside the data, one older generation kept. */
async function openLog(dataDir: string) {
  const path = `${dataDir}.log`;
  const size = (await stat(path).catch(() => null))?.size ?? 0;
  if (size > LOG_LIMIT_BYTES) await rename(path, `${dataDir}.1.log`);
  return open(path, "a+", 0o600);
}

function childServer(child: ChildProcess): RunningServer {
  const pid = child.pid ?? 0;
  return {
    pid,
    async ended(signal) {
      if (!hasEnded(child)) await once(child, "exit", { signal });
      return describeEnd(child);
    },
    async stop(signal, limitMs) {
      if (hasEnded(child)) return true;
      // A process with nothing else to do has to live until its server has ended.
      child.ref();
      const exited = once(child, "exit", { signal: AbortSignal.timeout(limitMs) });
      child.kill(signal);
      return exited.then(
        () => true,
        () => false,
      );
    },
  };
}

/** A server somebody else started: watched by its entry in the process table. */
function foundServer(dataDir: string, pid: number): RunningServer {
  const gone = async (signal: AbortSignal) => {
    while (await isPostmasterAlive(dataDir, pid)) await delay(WATCH_MS, undefined, { signal, ref: false });
  };
  return {
    pid,
    async ended(signal) {
      await gone(signal);
      return "it is not in the process table any more";
    },
    async stop(signal, limitMs) {
      if (!(await isPostmasterAlive(dataDir, pid))) return true;
      process.kill(pid, signal);
      const giveUpAt = performance.now() + limitMs;
      while (await isPostmasterAlive(dataDir, pid)) {
        if (performance.now() > giveUpAt) return false;
        await delay(POLL_MS);
      }
      return true;
    },
  };
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function describeEnd(child: ChildProcess): string {
  return child.signalCode === null ? `exit code ${child.exitCode}` : `signal ${child.signalCode}`;
}
