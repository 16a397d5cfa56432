import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { startEmbeddedPostgres } from "../../adapters/embedded/embedded-postgres.ts";
import { migrate } from "../../adapters/postgres/migrate.ts";
import { composeReconciler, openStores, type Stores, startReconciler } from "../../compose.ts";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { ScheduleView } from "../../protocol/ports/panel.ts";
import type { SyncOutcome } from "../../reconcile/sync-outcome.ts";
import { firesBetween } from "../../time/next-fire.ts";
import { formatLocal } from "../../time/time-zone.ts";
import { expectAddress } from "../database-address.ts";
import type { CommandIo } from "../io.ts";
import { openSource } from "../open-source.ts";
import { openProcessLogger } from "../process-logger.ts";
import { expectSettings, openProject, type Project } from "../project.ts";
import { type ReadyMessage, type RoleProcesses, superviseRoles } from "../role-processes.ts";
import { claimUpFile, type UpClaim } from "../up-file.ts";
import { readPort, stopRequested } from "./roles.ts";

interface UpOptions {
  readonly dir?: string;
  readonly data?: string;
  readonly port?: string;
  readonly workers: string;
}

/** Above the worker's own time for draining, before it is killed. */
const STOP_MARGIN_MS = 15_000;
const FIRES_SHOWN = 5;
const LAST_INSTANT = new Date(Date.UTC(9999, 11, 31));

/** `up`: the embedded database, the reconciler, the server and the workers under one supervisor. */
export function addUpCommand(program: Command, io: CommandIo): void {
  program
    .command("up")
    .description("run everything here: database, reconciler, API, panel and workers")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--data <folder>", "where the state lies (default: .turno)")
    .option("--port <n>", "the panel's port; 0: a free one")
    .option("--workers <n>", "how many worker processes, 0 to 99", "1")
    .action((options: UpOptions) => runUp(io, options));
}

async function runUp(io: CommandIo, options: UpOptions): Promise<void> {
  const workers = readWorkers(options.workers);
  const ownPort = options.port === undefined ? null : readPort(options.port);
  const project = await openProject(io, { dir: options.dir, data: options.data });
  expectSettings(project);
  const { url: ownDatabase } = project.settings.database;
  if (ownDatabase !== null) expectAddress(ownDatabase);
  const logger = openProcessLogger(io, { level: "warn" });
  const running: (() => Promise<void>)[] = [];
  const undo = (step: () => Promise<void>) => running.unshift(step);
  // A second Ctrl-C ends this process at once: nothing of it may stay behind.
  const atOnce: (() => void)[] = [];
  const onExit = () => {
    if (io.signal.aborted) for (const step of atOnce) step();
  };
  process.once("exit", onExit);
  try {
    await mkdir(project.paths.turno, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
      throw stateUnwritable(project.paths.turno, error);
    });
    const claim = await claimFolder(project, io);
    undo(() => claim.release());
    const connectionString = await openUpDatabase({ io, project, logger, undo, atOnce });
    const databaseUrl = ownDatabase === null ? connectionString : null;
    await claim.tell({ url: null, databaseUrl });
    await migrate({ connectionString }, logger);
    const stores = openStores({ address: { connectionString }, role: "up", poolSize: 4, logger });
    undo(() => stores.close());
    const source = await openSource(io, project, logger);
    undo(() => source.close());
    const reconciler = composeReconciler({
      look: source.look,
      staleAfterMs: project.staleAfterMs,
      stores,
      root: project.paths.root,
      loadProject: project.load,
      appliedBy: "turno up",
      takeOver: databaseUrl !== null,
      // Whoever edits files looks here for what became of it.
      logger: openProcessLogger(io, { level: "info" }),
    });
    const roles = superviseRoles({
      entry: fileURLToPath(new URL("../main.js", import.meta.url)),
      cwd: project.paths.root,
      env: childEnvironment(io, { connectionString, project }),
      logger,
      stopTimeoutMs: project.settings.worker.shutdownTimeoutMs + STOP_MARGIN_MS,
      onOutput: io.err,
    });
    undo(() => roles.stop());
    atOnce.unshift(() => roles.kill());
    const port = ownPort ?? project.settings.api.port;
    const onMoved = (moved: string) => {
      io.err(`the panel is at ${moved} now\n`);
      claim.tell({ url: moved, databaseUrl }).catch((error: unknown) => {
        logger.warn("the new address could not be written down", { error: describeError(error) });
      });
    };
    // The server needs no revision to start with. A worker does: it would fire what the files have removed or suspended
    // since the last run, and run jobs with the code of then.
    const synced = reconciler.syncOnce(io.signal);
    const started = startRoles({ roles, project, port, workers, synced, onMoved });
    const [outcome, url] = await Promise.all([synced, untilAborted(started, io.signal)]);
    await claim.tell({ url, databaseUrl });
    io.out(await readyText({ stores, outcome, url }));
    const following = await startReconciler(reconciler, logger);
    undo(() => following.stop());
    await stopRequested(io.signal);
  } catch (error) {
    if (!io.signal.aborted) throw error;
  } finally {
    if (io.signal.aborted && running.length > 0) {
      io.err("stopping: waiting for running jobs to end; Ctrl-C again ends at once\n");
    }
    for (const step of running) {
      await step().catch((error: unknown) =>
        logger.warn("a part did not stop cleanly", { error: describeError(error) }),
      );
    }
    process.off("exit", onExit);
  }
}

/** The first place where the folder can be claimed; commands find the second one with --data. */
async function claimFolder(project: Project, io: CommandIo): Promise<UpClaim> {
  const [own = "", other] = project.paths.upFiles;
  try {
    return await claimUpFile(own);
  } catch (error) {
    if (error instanceof TurnoError) throw error;
    if (other === undefined) throw stateUnwritable(dirname(own), error);
    const claim = await claimUpFile(other);
    io.err(`${dirname(own)} cannot be written to; other commands find this with --data or --server\n`);
    return claim;
  }
}

function stateUnwritable(folder: string, cause: unknown): TurnoError {
  return new TurnoError("TURNO_PROJECT_UNWRITABLE", `${folder} cannot be written to: ${describeError(cause)}`, {
    cause,
    hint: "choose another folder for the state with --data, or run Turno as the user that the project's folder belongs to",
  });
}

/** Rejects when the signal aborts first; the promise then goes on unheard. */
async function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  promise.catch(() => {});
  return Promise.race([promise, stopRequested(signal).then(() => Promise.reject(signal.reason))]);
}

async function openUpDatabase(up: {
  readonly io: CommandIo;
  readonly project: Project;
  readonly logger: Logger;
  readonly undo: (step: () => Promise<void>) => void;
  readonly atOnce: (() => void)[];
}): Promise<string> {
  const { url } = up.project.settings.database;
  if (url !== null) return url;
  up.io.err("starting PostgreSQL\n");
  const server = await startEmbeddedPostgres({
    dataDir: up.project.paths.postgres,
    durable: true,
    logger: up.logger,
    signal: up.io.signal,
  });
  up.undo(() => server.stop());
  up.atOnce.push(() => server.abandon());
  return server.address.connectionString;
}

function childEnvironment(
  io: CommandIo,
  up: { readonly connectionString: string; readonly project: Project },
): Record<string, string | undefined> {
  return {
    ...io.env,
    TURNO_DATABASE_URL: up.connectionString,
    TURNO_REPORTS_DIR: up.project.paths.reports,
    TURNO_OUTBOX_DIR: up.project.paths.outbox,
    TURNO_LOG_FORMAT: io.env.TURNO_LOG_FORMAT ?? (io.errIsTerminal ? "text" : "json"),
    TURNO_LOG_LEVEL: io.env.TURNO_LOG_LEVEL ?? "warn",
    ...(io.colour ? {} : { NO_COLOR: "1" }),
  };
}

async function startRoles(start: {
  readonly roles: RoleProcesses;
  readonly project: Project;
  readonly port: number;
  readonly workers: number;
  /** The files are in force, or cannot be: then workers may start. */
  readonly synced: Promise<unknown>;
  /** A server that died found its port taken. */
  readonly onMoved: (url: string) => void;
}): Promise<string> {
  const { roles, port, workers, project } = start;
  const here = ["--dir", project.paths.root, "--runtime", project.handDown()];
  const server = ["server", ...here, "--pass-busy-port", "--port"];
  const { url }: ReadyMessage = await roles.start({
    role: "server",
    args: [...server, String(port)],
    argsAgain: (ready) => [...server, ready.url === null ? String(port) : new URL(ready.url).port],
    onReadyAgain: (ready) => {
      if (ready.url !== null && ready.url !== url) start.onMoved(ready.url);
    },
  });
  await start.synced;
  const api = url ?? "";
  const worker = { role: "worker", args: ["worker", ...here], env: { TURNO_API_URL: api } };
  await Promise.all(Array.from({ length: workers }, () => roles.start(worker)));
  return api;
}

async function readyText(ready: {
  readonly stores: Stores;
  readonly outcome: SyncOutcome;
  readonly url: string;
}): Promise<string> {
  const now = new Date();
  const next = (await loadSchedules(ready.stores))
    .flatMap((schedule) => {
      if (schedule.suspended || schedule.nextFireAt === null) return [];
      // One that is due is about to be decided on: the one after it is what a person waits for.
      const at =
        schedule.nextFireAt > now
          ? schedule.nextFireAt
          : (firesBetween(schedule.spec.timing, now, LAST_INSTANT, 1)[0] ?? null);
      return at === null ? [] : [{ ...schedule, at }];
    })
    .sort((left, right) => left.at.getTime() - right.at.getTime())
    .slice(0, FIRES_SHOWN)
    .map(
      (schedule) =>
        `  ${formatLocal(schedule.at, schedule.spec.timeZone)}  ${schedule.name}  (${schedule.source?.file ?? "?"}:${schedule.source?.line ?? "?"})\n`,
    );
  return `Turno is ready: ${ready.url}  ${outcomeText(ready.outcome)}\n${next.length === 0 ? "" : `next fires:\n${next.join("")}`}`;
}

async function loadSchedules({ panel }: Stores): Promise<readonly ScheduleView[]> {
  const schedules: ScheduleView[] = [];
  for (let after: string | null = null; ; ) {
    const page: Awaited<ReturnType<typeof panel.listSchedules>> = await panel.listSchedules({ after, limit: 1_000 });
    schedules.push(...page.items);
    if (page.next === null) return schedules;
    after = page.next;
  }
}

function outcomeText(outcome: SyncOutcome): string {
  if (outcome.kind === "applied") {
    const changed = outcome.plan.changes.filter((change) => change.action !== "none").length;
    return `revision ${outcome.revision.number} applied, ${changed} ${changed === 1 ? "object" : "objects"} changed`;
  }
  if (outcome.kind === "unchanged") return `revision ${outcome.revision.number} is in force, nothing changed`;
  if (outcome.kind === "refused") return `nothing applied: ${outcome.error.message}`;
  const [first] = outcome.problems.filter((problem) => problem.severity === "error");
  const where = first === undefined ? "" : `, first ${first.file}:${first.line}:${first.column} ${first.message}`;
  return `nothing applied: the files have problems${where} (turno validate shows all)`;
}

function readWorkers(text: string): number {
  if (/^\d{1,2}$/.test(text)) return Number(text);
  throw new TurnoError("TURNO_USAGE", `expected --workers from 0 to 99, found "${text}"`);
}
