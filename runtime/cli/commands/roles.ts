import { join } from "node:path";
import type { Command } from "commander";
import { composeReconciler, openStores, startReconciler, startServer, startWorker } from "../../compose.ts";
import type { RuntimeSettings } from "../../config/objects.ts";
import { TurnoError } from "../../core/errors.ts";
import { openDatabaseAddress } from "../database-address.ts";
import type { CommandIo } from "../io.ts";
import { openProcessLogger } from "../process-logger.ts";
import { openProject } from "../project.ts";
import type { ReadyMessage } from "../role-processes.ts";

interface RoleOptions {
  readonly dir?: string;
}

/** `server`, `worker`, `reconciler`: one role a process, on as many machines as wanted. They stop on SIGTERM and Ctrl-C. */
export function addRoleCommands(program: Command, io: CommandIo): void {
  program
    .command("server")
    .description("run the API and the panel")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--host <address>", "listen on this address instead of the project's")
    .option("--port <n>", "listen on this port instead of the project's; 0: a free one")
    .option("--pass-busy-port", "take the next free port when the port is taken")
    .action(async (options: RoleOptions & { host?: string; port?: string; passBusyPort?: boolean }) => {
      await using role = await openRole(io, options, "server");
      const { api } = role.project.settings;
      const settings = {
        ...api,
        host: options.host ?? api.host,
        port: options.port === undefined ? api.port : readPort(options.port),
      };
      const server = await startServer({ ...role, settings, passBusyPorts: options.passBusyPort === true });
      announce(io, { kind: "ready", url: server.url }, `the API and the panel: ${server.url}`);
      await stopRequested(io.signal);
      await server.close();
    });

  program
    .command("worker")
    .description("run jobs; one of the workers leads scheduling, recovery and clean-up")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--queue <name=slots...>", "serve these queues instead of the project's")
    .action(async (options: RoleOptions & { queue?: readonly string[] }) => {
      await using role = await openRole(io, options, "worker");
      const settings = withQueues(role.project.settings, options.queue);
      const { paths } = role.project;
      const worker = await startWorker({
        ...role,
        settings,
        root: paths.root,
        bundlesDir: paths.bundles,
        handlerEnv: {
          TURNO_DATABASE_URL: role.address.connectionString,
          TURNO_REPORTS_DIR: io.env.TURNO_REPORTS_DIR ?? paths.reports,
          TURNO_OUTBOX_DIR: io.env.TURNO_OUTBOX_DIR ?? paths.outbox,
        },
      });
      const queues = settings.worker.queues.map((queue) => `${queue.name}×${queue.concurrency}`).join(" ");
      announce(io, { kind: "ready", url: null }, `the worker serves ${queues}`);
      await stopRequested(io.signal);
      await worker.stop();
    });

  program
    .command("reconciler")
    .description("watch the project's files and bring every change into force")
    .option("--dir <folder>", "the project's folder (default: here)")
    .action(async (options: RoleOptions) => {
      await using role = await openRole(io, options, "reconciler");
      const { project } = role;
      if (project.problems.length > 0) role.logger.error("turno.yaml has problems; run turno validate");
      const reconciler = composeReconciler({
        ...role,
        root: project.paths.root,
        loadProject: project.load,
        appliedBy: "turno reconciler",
        takeOver: false,
      });
      const following = await startReconciler(reconciler, role.logger);
      announce(
        io,
        { kind: "ready", url: null },
        `watching ${join(project.paths.root, "turno.yaml")} and what it includes`,
      );
      await stopRequested(io.signal);
      await following.stop();
    });
}

async function openRole(io: CommandIo, options: RoleOptions, role: string) {
  const logger = openProcessLogger(io, { level: "info" }).child({ role });
  const project = await openProject(io, { dir: options.dir, filesOptional: role !== "reconciler" });
  const { address } = await openDatabaseAddress(project, { start: false, logger, signal: io.signal });
  const stores = openStores({ address, role, poolSize: project.settings.database.poolSize, logger });
  return { project, address, stores, logger, [Symbol.asyncDispose]: () => stores.close() };
}

/** Tells the supervisor by IPC, a person by a line. */
function announce(io: CommandIo, message: ReadyMessage, text: string): void {
  if (process.send === undefined) io.out(`${text}\n`);
  else process.send(message);
}

export function stopRequested(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

export function readPort(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port;
  throw new TurnoError("TURNO_USAGE", `expected a port from 0 to 65535, found "${text}"`);
}

function withQueues(settings: RuntimeSettings, queues: readonly string[] | undefined): RuntimeSettings {
  if (queues === undefined) return settings;
  const parsed = queues.map((text) => {
    const [, name, slots] = /^([a-z0-9][a-z0-9._-]{0,199})=(\d{1,4})$/.exec(text) ?? [];
    if (name === undefined || Number(slots) < 1) {
      throw new TurnoError("TURNO_USAGE", `expected a queue as NAME=SLOTS, such as default=4, found "${text}"`);
    }
    return { name, concurrency: Number(slots) };
  });
  return { ...settings, worker: { ...settings.worker, queues: parsed } };
}
