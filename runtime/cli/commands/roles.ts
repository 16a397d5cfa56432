import { constants } from "node:fs";
import { access, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { migrate } from "../../adapters/postgres/migrate.ts";
import { waitForSchema } from "../../adapters/postgres/schema-range.ts";
import { readWebhookSecret } from "../../compose/source.ts";
import { NO_TRANSPORT, openTransport, recordTransport } from "../../compose/transport.ts";
import {
  composeReconciler,
  openStores,
  startReconciler,
  startReconcilerHealth,
  startServer,
  startServerDispatching,
  startWorker,
  startWorkerHealth,
} from "../../compose.ts";
import type { RuntimeSettings } from "../../config/objects.ts";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { findUp, openDatabaseAddress } from "../database-address.ts";
import type { CommandIo } from "../io.ts";
import { openSource } from "../open-source.ts";
import { openProcessLogger } from "../process-logger.ts";
import { expectSettings, openProject } from "../project.ts";
import type { ReadyMessage } from "../role-processes.ts";

interface RoleOptions {
  readonly dir?: string;
  /** From a supervisor; see Project.handDown. */
  readonly runtime?: string;
}

interface ReconcilerRoleOptions extends RoleOptions {
  readonly healthPort?: string;
  readonly healthHost: string;
}

interface WorkerRoleOptions extends ReconcilerRoleOptions {
  readonly queue?: readonly string[];
}

/** `server`, `worker`, `reconciler`: one role a process, on as many machines as wanted. They stop on SIGTERM and Ctrl-C. */
export function addRoleCommands(program: Command, io: CommandIo): void {
  program
    .command("server")
    .description("run the API and the panel; brings the database's schema to this version first")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--host <address>", "listen on this address instead of the project's")
    .option("--port <n>", "listen on this port instead of the project's; 0: a free one")
    .option("--pass-busy-port", "take the next free port when the port is taken")
    .addOption(handedDown())
    .action(async (options: RoleOptions & { host?: string; port?: string; passBusyPort?: boolean }) => {
      const port = options.port === undefined ? null : readPort(options.port);
      await using role = await openRole(io, options, "server");
      const { api } = role.project.settings;
      const settings = { ...api, host: options.host ?? api.host, port: port ?? api.port };
      await migrate(role.address, role.logger);
      await using transport = await openRoleTransport(role);
      await recordTransport(role.stores.outbox, transport, role.logger);
      const dispatching = startServerDispatching({ ...role, transport });
      try {
        const server = await startServer({
          ...role,
          transport,
          settings,
          gitHookSecret: readWebhookSecret({ ...role.project, root: role.project.paths.root, environment: io.env }),
          passBusyPorts: options.passBusyPort === true,
        });
        announce(io, { kind: "ready", url: server.url }, `the API and the panel: ${server.url}`);
        await stopRequested(io.signal);
        await server.close();
      } finally {
        await dispatching.stop();
      }
    });

  program
    .command("worker")
    .description("run jobs; one of the workers leads scheduling, recovery and clean-up")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--queue <name=slots...>", "serve these queues instead of the project's, such as default=4 reports=1")
    .option("--health-port <n>", "answer /health/live, /health/ready and /metrics on this port; 0: a free one")
    .option("--health-host <address>", "where that port listens", "127.0.0.1")
    .addOption(handedDown())
    .action(async (options: WorkerRoleOptions) => {
      const healthPort = options.healthPort === undefined ? null : readPort(options.healthPort);
      const queues = readQueues(options.queue);
      await using role = await openRole(io, options, "worker");
      const { paths, settings: declared } = role.project;
      const settings = queues === null ? declared : { ...declared, worker: { ...declared.worker, queues } };
      await using bundles = await openBundlesDir(paths.bundles, role.logger);
      // Beside a running `up` its API is what samples ask.
      const apiUrl = io.env.TURNO_API_URL ?? (await findUp(paths, io.signal).catch(() => null))?.url ?? null;
      let started: Awaited<ReturnType<typeof startWorker>> | null = null;
      let opened = NO_TRANSPORT;
      const readiness = () => started?.role.readiness() ?? null;
      const health =
        healthPort === null
          ? null
          : await startWorkerHealth({
              readiness,
              transport: () => opened,
              monitoring: {
                stores: role.stores,
                readFigures: () => started?.readFigures() ?? null,
                settings: declared.api,
              },
              host: options.healthHost,
              port: healthPort,
              logger: role.logger,
            });
      if (!(await waitForSchema(role.stores.database, { logger: role.logger, signal: io.signal }))) {
        await health?.close();
        return;
      }
      await using transport = await openRoleTransport(role);
      opened = transport;
      const worker = await startWorker({
        ...role,
        transport,
        settings,
        root: paths.root,
        bundlesDir: bundles.folder,
        handlerEnv: {
          TURNO_DATABASE_URL: role.address.connectionString,
          TURNO_REPORTS_DIR: io.env.TURNO_REPORTS_DIR ?? paths.reports,
          TURNO_OUTBOX_DIR: io.env.TURNO_OUTBOX_DIR ?? paths.outbox,
          ...(apiUrl === null ? {} : { TURNO_API_URL: apiUrl }),
        },
      });
      started = worker;
      const served = settings.worker.queues.map((queue) => `${queue.name}×${queue.concurrency}`).join(" ");
      announce(io, { kind: "ready", url: null }, `the worker serves ${served}${whereHealth(health)}`);
      await stopRequested(io.signal);
      await worker.stop();
      await health?.close();
    });

  program
    .command("reconciler")
    .description("watch the project's files and bring every change into force")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--health-port <n>", "answer /health/live, /health/ready and /metrics on this port; 0: a free one")
    .option("--health-host <address>", "where that port listens", "127.0.0.1")
    .action(async (options: ReconcilerRoleOptions) => {
      const healthPort = options.healthPort === undefined ? null : readPort(options.healthPort);
      await using role = await openRole(io, options, "reconciler");
      const { project } = role;
      let isFollowing = false;
      const health =
        healthPort === null
          ? null
          : await startReconcilerHealth({
              ...role,
              settings: project.settings,
              isFollowing: () => isFollowing && !io.signal.aborted,
              host: options.healthHost,
              port: healthPort,
            });
      if (!(await waitForSchema(role.stores.database, { logger: role.logger, signal: io.signal }))) {
        await health?.close();
        return;
      }
      const source = await openSource(io, project, role.logger);
      const reconciler = composeReconciler({
        ...role,
        look: source.look,
        staleAfterMs: project.staleAfterMs,
        root: project.paths.root,
        loadProject: project.load,
        appliedBy: "turno reconciler",
        takeOver: false,
      });
      const following = await startReconciler(reconciler, role.logger);
      isFollowing = true;
      const watched =
        project.source === null
          ? `watching ${join(project.paths.root, "turno.yaml")} and what it includes`
          : `following ${project.source.git.ref} of ${source.look.source.identity.origin}`;
      announce(io, { kind: "ready", url: null }, `${watched}${whereHealth(health)}`);
      await stopRequested(io.signal);
      await following.stop();
      await source.close();
      await health?.close();
    });
}

async function openRole(io: CommandIo, options: RoleOptions, role: string) {
  const logger = openProcessLogger(io, { level: "info" }).child({ role });
  const project = await openProject(io, {
    dir: options.dir,
    filesOptional: role !== "reconciler",
    handedDown: options.runtime,
  });
  expectSettings(project);
  const { address } = await openDatabaseAddress(project, { start: false, logger, signal: io.signal });
  const stores = openStores({ address, role, poolSize: project.settings.database.poolSize, logger });
  return { project, address, stores, logger, [Symbol.asyncDispose]: () => stores.close() };
}

async function openRoleTransport({ project, stores, logger }: Awaited<ReturnType<typeof openRole>>) {
  const transport = await openTransport({ settings: project.settings, outbox: stores.outbox, logger });
  return { ...transport, [Symbol.asyncDispose]: () => transport.close() };
}

/** Tells the supervisor by IPC, a person by a line. */
function announce(io: CommandIo, message: ReadyMessage, text: string): void {
  if (process.send === undefined) io.out(`${text}\n`);
  else process.send(message);
}

function whereHealth(health: { readonly url: string } | null): string {
  return health === null ? "" : `; its health: ${health.url}/health/ready`;
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

function readQueues(queues: readonly string[] | undefined): RuntimeSettings["worker"]["queues"] | null {
  if (queues === undefined) return null;
  const parsed = queues.map((text) => {
    const [, name, slots] = /^([a-z0-9][a-z0-9._-]{0,199})=(\d{1,4})$/.exec(text) ?? [];
    if (name === undefined || Number(slots) < 1) {
      throw new TurnoError("TURNO_USAGE", `expected a queue as NAME=SLOTS, such as default=4, found "${text}"`);
    }
    return { name, concurrency: Number(slots) };
  });
  const twice = parsed.find(({ name }, index) => parsed.findIndex((queue) => queue.name === name) < index);
  if (twice !== undefined) throw new TurnoError("TURNO_USAGE", `the queue ${twice.name} is named twice after --queue`);
  return parsed;
}

function handedDown(): Option {
  return new Option("--runtime <json>", "settings of a supervisor, in place of turno.yaml's").hideHelp();
}

/** Where bundles are kept: below the project, or for a folder that cannot be written to in one that goes at the end. */
async function openBundlesDir(wanted: string, logger: Logger): Promise<AsyncDisposable & { readonly folder: string }> {
  try {
    await mkdir(wanted, { recursive: true, mode: 0o700 });
    await access(wanted, constants.W_OK);
    return { folder: wanted, [Symbol.asyncDispose]: async () => {} };
  } catch (error) {
    const folder = await mkdtemp(join(tmpdir(), "turno-bundles-"));
    logger.warn("bundles cannot be kept below the project, so packages with native parts are not found", {
      error: describeError(error),
      folder,
    });
    return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
  }
}
