import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { prepareBinaries } from "./binaries.ts";
import { chooseSocketDir, ensureCluster, placeDataFolder, removeSocketDir } from "./data-folder.ts";
import { isOwnedHere, isPostmasterAlive, readOwner, readPostmasterFile, writeOwner } from "./postmaster-file.ts";
import { adoptServer, type RunningServer, type ServerSite, spawnServer } from "./server.ts";

export interface EmbeddedPostgresOptions {
  /** Where the data should lie; see {@link placeDataFolder} for where root's data goes instead. */
  readonly dataDir: string;
  readonly logger: Logger;
  /** False: no fsync, for tests. */
  readonly durable: boolean;
  /** Aborts the start; a started server ends by `stop`. */
  readonly signal: AbortSignal;
}

export interface EmbeddedPostgres {
  readonly address: { readonly connectionString: string };
  /** The postmaster's process now; another one after it died and was started again. */
  readonly pid: number;
  /** Where the data really lies. */
  readonly dataDir: string;
  /** Stops the server (fast shutdown, then immediate), unless another living process owns it. Safe to call twice. */
  stop(): Promise<void>;
  /** Asks it to stop fast, as `stop` does, and waits for nothing: for a process that is itself about to go. */
  abandon(): void;
}

/** How long a start may be held up by the lock file of a server that is just ending. */
const LOCKED_LIMIT_MS = 20_000;
const LOCKED_RETRY_MS = 150;
const RESTART_FIRST_MS = 100;
const RESTART_MAX_MS = 10_000;
/** A server that lived this long had nothing wrong with it: the next restart comes without waiting. */
const HEALTHY_AFTER_MS = 60_000;
const FAST_STOP_MS = 30_000;
const IMMEDIATE_STOP_MS = 10_000;

/**
 * Starts the embedded PostgreSQL, or takes over the one that serves the folder already (its owner was killed, or another
 * process runs it), and keeps it running: a server that dies is started again. Throws TURNO_EMBEDDED_*.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { logger, signal, durable } = options;
  const folder = await placeDataFolder(options.dataDir);
  const binaries = await prepareBinaries({ account: folder.account, copyTo: dirname(folder.dataDir) });
  await ensureCluster(folder, { binaries, durable, signal });
  const found = await readPostmasterFile(folder.dataDir);
  const kept = found !== null && (await isPostmasterAlive(folder.dataDir, found.pid));
  if (found !== null && !kept) await removeSocketDir(found.socketDir);
  const socketDir = kept ? found.socketDir : await chooseSocketDir(folder);
  const site: ServerSite = { ...folder, binaries, socketDir, durable, logger };
  const server = await adoptOrSpawn(site, signal).catch((error: unknown) => {
    if (error instanceof TurnoError || signal.aborted) throw error;
    const message = `the embedded PostgreSQL in ${site.dataDir} could not be started: ${describeError(error)}`;
    throw new TurnoError("TURNO_EMBEDDED_START", message, { cause: error });
  });
  return supervise(site, server);
}

/** Until a server serves the folder: an existing one is adopted; one that is just ending is waited for. */
async function adoptOrSpawn(site: ServerSite, signal: AbortSignal): Promise<RunningServer> {
  const giveUpAt = performance.now() + LOCKED_LIMIT_MS;
  for (;;) {
    signal.throwIfAborted();
    const adopted = await adoptServer(site, signal);
    if (adopted !== null) {
      if ((await readOwner(site.dataDir)) === "none") await writeOwner(site.dataDir);
      site.logger.info("using the PostgreSQL that already serves the folder", {
        pid: adopted.pid,
        dataDir: site.dataDir,
      });
      return adopted;
    }
    const outcome = await spawnServer(site, signal);
    if (outcome.started !== null) {
      await writeOwner(site.dataDir);
      site.logger.debug("the embedded PostgreSQL runs", { pid: outcome.started.pid, dataDir: site.dataDir });
      return outcome.started;
    }
    if (!outcome.locked || performance.now() > giveUpAt) {
      throw new TurnoError(
        "TURNO_EMBEDDED_START",
        `the embedded PostgreSQL in ${site.dataDir} did not start: ${outcome.reason}`,
        {
          hint: outcome.locked
            ? "another PostgreSQL holds the folder: stop it, or choose another folder with --data"
            : "mend what the server says, choose another folder with --data, or set TURNO_DATABASE_URL to a PostgreSQL server",
        },
      );
    }
    await delay(LOCKED_RETRY_MS, undefined, { signal });
  }
}

function supervise(site: ServerSite, first: RunningServer): EmbeddedPostgres {
  const stopping = new AbortController();
  let server = first;
  const watching = watch();
  let stopped: Promise<void> | null = null;

  async function watch(): Promise<void> {
    let waitMs = 0;
    while (!stopping.signal.aborted) {
      const since = performance.now();
      const how = await server.ended(stopping.signal).catch(() => null);
      if (how === null || stopping.signal.aborted) return;
      if (performance.now() - since > HEALTHY_AFTER_MS) waitMs = 0;
      site.logger.warn("the embedded PostgreSQL ended by itself; starting it again", { pid: server.pid, how });
      waitMs = await restart(waitMs);
    }
  }

  /** Tries until it runs again or `stop` comes; returns the wait with which the next restart begins. */
  async function restart(firstWaitMs: number): Promise<number> {
    for (let waitMs = firstWaitMs; ; ) {
      try {
        await delay(waitMs, undefined, { signal: stopping.signal });
        waitMs = Math.min(RESTART_MAX_MS, Math.max(RESTART_FIRST_MS, waitMs * 2));
        server = await adoptOrSpawn(site, stopping.signal);
        site.logger.info("the embedded PostgreSQL runs again", { pid: server.pid });
        return waitMs;
      } catch (error) {
        if (stopping.signal.aborted) return waitMs;
        site.logger.error("the embedded PostgreSQL could not be started again", {
          error: describeError(error),
          nextTryMs: waitMs,
        });
      }
    }
  }

  async function stop(): Promise<void> {
    stopping.abort();
    await watching;
    if ((await readOwner(site.dataDir)) === "other") return;
    if (await server.stop("SIGINT", FAST_STOP_MS)) return removeSocketDir(site.socketDir);
    site.logger.warn("the embedded PostgreSQL did not end within its time; ending it at once", { pid: server.pid });
    await server.stop("SIGQUIT", IMMEDIATE_STOP_MS);
    await removeSocketDir(site.socketDir);
  }

  return {
    address: { connectionString: connectionString(site.socketDir) },
    dataDir: site.dataDir,
    get pid() {
      return server.pid;
    },
    stop: () => (stopped ??= stop()),
    abandon() {
      stopping.abort();
      if (!isOwnedHere(site.dataDir)) return;
      try {
        process.kill(server.pid, "SIGINT");
      } catch (error) {
        site.logger.debug("the embedded PostgreSQL was gone already", { error: describeError(error) });
      }
    },
  };
}

function connectionString(socketDir: string): string {
  return `postgresql://turno@localhost:5432/postgres?host=${encodeURIComponent(socketDir)}`;
}
