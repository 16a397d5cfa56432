import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { startEmbeddedPostgres } from "../../adapters/embedded/embedded-postgres.ts";
import { migrate } from "../../adapters/postgres/migrate.ts";
import { composeReconciler, openStores, type Stores, startReconciler } from "../../compose.ts";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { SyncOutcome } from "../../reconcile/sync-outcome.ts";
import { formatLocal } from "../../time/time-zone.ts";
import type { CommandIo } from "../io.ts";
import { openProcessLogger } from "../process-logger.ts";
import { openProject, type Project } from "../project.ts";
import { type RoleProcesses, superviseRoles } from "../role-processes.ts";
import { readUpFile, removeUpFile, writeUpFile } from "../up-file.ts";
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

/** `up`: the embedded database, the reconciler, the server and the workers under one supervisor. */
export function addUpCommand(program: Command, io: CommandIo): void {
  program
    .command("up")
    .description("run everything here: database, reconciler, API, panel and workers")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--data <folder>", "where the state lies (default: .turno)")
    .option("--port <n>", "the panel's port; 0: a free one")
    .option("--workers <n>", "how many worker processes", "1")
    .action((options: UpOptions) => runUp(io, options));
}

async function runUp(io: CommandIo, options: UpOptions): Promise<void> {
  const project = await openProject(io, { dir: options.dir, data: options.data });
  const port = options.port === undefined ? project.settings.api.port : readPort(options.port);
  const workers = readWorkers(options.workers);
  await refuseSecondUp(project);
  await mkdir(project.paths.turno, { recursive: true, mode: 0o700 });
  const logger = openProcessLogger(io, { level: "warn" });
  const running: (() => Promise<void>)[] = [];
  const undo = (step: () => Promise<void>) => running.unshift(step);
  try {
    const connectionString = await openUpDatabase({ io, project, logger, undo });
    await writeUpFile(project.paths.upFile, { pid: process.pid, url: null, databaseUrl: connectionString });
    undo(() => removeUpFile(project.paths.upFile));
    await migrate({ connectionString }, logger);
    const stores = openStores({ address: { connectionString }, role: "up", poolSize: 4, logger });
    undo(() => stores.close());
    const reconciler = composeReconciler({
      stores,
      root: project.paths.root,
      loadProject: project.load,
      appliedBy: "turno up",
      takeOver: project.settings.database.url === null,
      logger,
    });
    const outcome = await reconciler.syncOnce(io.signal);
    await stores.cleanup.preparePartitions();

    const roles = superviseRoles({
      entry: fileURLToPath(new URL("../main.js", import.meta.url)),
      cwd: project.paths.root,
      env: childEnvironment(io, { connectionString, project }),
      logger,
      stopTimeoutMs: project.settings.worker.shutdownTimeoutMs + STOP_MARGIN_MS,
      onOutput: io.err,
    });
    undo(() => roles.stop());
    const url = await startRoles({ roles, project, port, workers });
    await writeUpFile(project.paths.upFile, { pid: process.pid, url, databaseUrl: connectionString });
    io.out(await readyText({ stores, outcome, url }));
    const following = await startReconciler(reconciler, logger);
    undo(() => following.stop());
    await stopRequested(io.signal);
    io.err("stopping: waiting for running jobs to end\n");
  } catch (error) {
    if (!io.signal.aborted) throw error;
  } finally {
    for (const step of running) {
      await step().catch((error: unknown) =>
        logger.warn("a part did not stop cleanly", { error: describeError(error) }),
      );
    }
  }
}

async function openUpDatabase(up: {
  readonly io: CommandIo;
  readonly project: Project;
  readonly logger: Logger;
  readonly undo: (step: () => Promise<void>) => void;
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
}): Promise<string> {
  const { roles, port, workers, project } = start;
  const here = ["--dir", project.paths.root];
  const server = ["server", ...here, "--pass-busy-port", "--port"];
  const { url } = await roles.start({
    role: "server",
    args: [...server, String(port)],
    argsAgain: (ready) => [...server, ready.url === null ? String(port) : new URL(ready.url).port],
  });
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
  const { items } = await ready.stores.panel.listSchedules({ after: null, limit: 200 });
  const next = items
    .flatMap((schedule) =>
      schedule.nextFireAt === null || schedule.suspended ? [] : [{ ...schedule, at: schedule.nextFireAt }],
    )
    .sort((left, right) => left.at.getTime() - right.at.getTime())
    .slice(0, FIRES_SHOWN)
    .map(
      (schedule) =>
        `  ${formatLocal(schedule.at, schedule.spec.timeZone)}  ${schedule.name}  (${schedule.source?.file ?? "?"}:${schedule.source?.line ?? "?"})\n`,
    );
  return `Turno is ready: ${ready.url}  ${outcomeText(ready.outcome)}\n${next.length === 0 ? "" : `next fires:\n${next.join("")}`}`;
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

/** One supervisor a folder; a file that a killed one left behind does not count. */
async function refuseSecondUp(project: Project): Promise<void> {
  const running = await readUpFile(project.paths.upFile);
  if (running === null) return;
  throw new TurnoError(
    "TURNO_ALREADY_RUNNING",
    `turno up runs in ${project.paths.root} already, as process ${running.pid}${running.url === null ? "" : `, at ${running.url}`}`,
    {
      hint: "stop it first, or use another folder",
    },
  );
}

function readWorkers(text: string): number {
  if (/^\d{1,2}$/.test(text)) return Number(text);
  throw new TurnoError("TURNO_USAGE", `expected --workers from 0 to 99, found "${text}"`);
}
