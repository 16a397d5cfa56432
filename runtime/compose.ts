import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { createWebApp } from "../web/app.ts";
import { parseApiKeys } from "../web/auth.ts";
import { createHealthApp } from "../web/health-app.ts";
import { checkListenAddress } from "../web/security.ts";
import { startWebServer, type WebServer } from "../web/server.ts";
import { openFolderSource } from "./adapters/files/folder-source.ts";
import { bundleHandlers } from "./adapters/handlers/bundle.ts";
import { createHandlerHost } from "./adapters/handlers/host.ts";
import { createCleanupStore } from "./adapters/postgres/cleanup-store.ts";
import { createDoorbell } from "./adapters/postgres/doorbell.ts";
import { createExecutionStore } from "./adapters/postgres/execution-store.ts";
import { createFireHistory } from "./adapters/postgres/fire-history.ts";
import { createJobStore } from "./adapters/postgres/job-store.ts";
import { createLeaseStore } from "./adapters/postgres/lease-store.ts";
import { createMetricsQueries } from "./adapters/postgres/metrics-queries.ts";
import { createOutboxStore } from "./adapters/postgres/outbox-store.ts";
import { createPanelQueries } from "./adapters/postgres/panel-queries.ts";
import { createPauseStore } from "./adapters/postgres/pause-store.ts";
import { type DatabaseAddress, openDatabase, type PoolOptions } from "./adapters/postgres/pool.ts";
import { createRevisionStore } from "./adapters/postgres/revision-store.ts";
import { createScheduleStore } from "./adapters/postgres/schedule-store.ts";
import { checkSchema } from "./adapters/postgres/schema-range.ts";
import { createSlaStore } from "./adapters/postgres/sla-store.ts";
import { createWorkerStore } from "./adapters/postgres/worker-store.ts";
import { systemClock } from "./adapters/system/clock.ts";
import { createEventCounters } from "./adapters/system/event-counters.ts";
import { createEventLog } from "./adapters/system/event-log.ts";
import { systemIds } from "./adapters/system/ids.ts";
import { systemRandom } from "./adapters/system/random.ts";
import { checkTransport, NO_TRANSPORT, type OpenedTransport } from "./compose/transport.ts";
import type { LoadedProject } from "./config/load-project.ts";
import type { JobDefinition, RuntimeSettings } from "./config/objects.ts";
import { type CompiledPayloadSchema, compilePayloadSchema, createPayloadValidator } from "./config/payload.ts";
import { describeError } from "./core/errors.ts";
import type { Json } from "./core/json.ts";
import type { Logger } from "./core/logger.ts";
import type { ProcessFigures } from "./protocol/ports/metrics.ts";
import type { HealthCheck } from "./protocol/ports/panel.ts";
import type { ProjectSnapshot } from "./protocol/ports/revisions.ts";
import { createLook, type LookOptions } from "./reconcile/look.ts";
import { createChildIntake } from "./services/child-jobs.ts";
import { type Dispatching, startDispatching } from "./services/dispatching.ts";
import { createJobIntake } from "./services/intake.ts";
import { createPauses } from "./services/pauses.ts";
import { createReconciler, type Reconciler } from "./services/reconciler.ts";
import { createRevisionDesk } from "./services/revision-desk.ts";
import { startWorkerRole, type WorkerRole } from "./services/worker-role.ts";
import { firesBetween } from "./time/next-fire.ts";
import { VERSION } from "./version.ts";

/** Everything that reads and writes one database; `close` ends all connections. */
export type Stores = ReturnType<typeof openStores>;

export interface StoreOptions {
  readonly address: DatabaseAddress;
  /** What the process is, as `pg_stat_activity` shows it. */
  readonly role: string;
  readonly poolSize: number;
  readonly logger: Logger;
}

/** Renewals have three seconds, and connections nobody else can use up. */
const LEASE_POOL = { size: 2, statementTimeoutMs: 3_000 };
/** The panel waits for nobody, and nobody waits for the panel. */
const PANEL_POOL = { size: 4, statementTimeoutMs: 5_000 };
const WORK_STATEMENT_TIMEOUT_MS = 30_000;
/** Two claims, two finishes and one job that lost its worker are under way at once, not more. */
const MOST_PREPARED = 5;

export function openStores({ address, role, poolSize, logger }: StoreOptions) {
  const open = (name: string, pool: Pick<PoolOptions, "size" | "preparedSize" | "statementTimeoutMs">) =>
    openDatabase({ address, applicationName: `turno-${role}${name}`, logger, ...pool });
  const preparedSize = Math.min(MOST_PREPARED, Math.floor(poolSize / 2));
  const database = open("", {
    size: poolSize - preparedSize,
    preparedSize,
    statementTimeoutMs: WORK_STATEMENT_TIMEOUT_MS,
  });
  const leaseDatabase = open("-leases", LEASE_POOL);
  const panelDatabase = open("-panel", PANEL_POOL);
  const doorbell = createDoorbell({ database, address, logger });
  return {
    database,
    doorbell,
    jobs: createJobStore(database, doorbell),
    executions: createExecutionStore({ database, logger, monotonicMs: systemClock.monotonicMs, doorbell }),
    leases: createLeaseStore(leaseDatabase, doorbell),
    schedules: createScheduleStore(database, doorbell),
    pauses: createPauseStore(database, doorbell),
    slas: createSlaStore(database, doorbell),
    workers: createWorkerStore(leaseDatabase),
    cleanup: createCleanupStore(database),
    revisions: createRevisionStore(database),
    outbox: createOutboxStore(database),
    panel: createPanelQueries(panelDatabase),
    metrics: createMetricsQueries(panelDatabase),
    history: createFireHistory(database, doorbell),
    async close(): Promise<void> {
      await doorbell.close();
      await Promise.all([database.close(), leaseDatabase.close(), panelDatabase.close()]);
    },
  };
}

export interface WebOptions {
  readonly stores: Stores;
  /** Absent: this process opens none, and says nothing of it. */
  readonly transport?: OpenedTransport;
  readonly settings: RuntimeSettings["api"];
  /** What webhooks of the source are signed with. */
  readonly gitHookSecret?: string | null;
  readonly logger: Logger;
}

/** The API and the panel over one database. */
export function composeWebApp({
  stores,
  transport = NO_TRANSPORT,
  settings,
  gitHookSecret = null,
  logger,
}: WebOptions) {
  return createWebApp({
    jobs: stores.jobs,
    intake: createJobIntake({ store: stores.jobs, ids: systemIds, validatePayload: createPayloadValidator() }),
    schedules: stores.schedules,
    pauses: createPauses(stores.pauses),
    revisions: createRevisionDesk({ store: stores.revisions, doorbell: stores.doorbell }),
    panel: stores.panel,
    metrics: stores.metrics,
    history: stores.history,
    forecastFires: (spec, { after, until, limit }) => firesBetween(spec.timing, after, until, limit),
    health: async () => ({ database: await checkDatabase(stores, logger), ...checkTransport(transport) }),
    keys: parseApiKeys(settings.keys),
    gitHookSecret,
    sessionSecret: randomBytes(32),
    clock: systemClock,
    ids: systemIds,
    logger,
    settings: { version: VERSION, allowedOrigins: settings.allowedOrigins },
  });
}

export interface ServerOptions extends WebOptions {
  /** A busy port is passed over for the next free one. */
  readonly passBusyPorts: boolean;
}

/** How many ports are tried after the wanted one. */
const PORT_TRIES = 100;
const LAST_PORT = 65_535;

/** The server role: API and panel. Throws TURNO_API_REFUSED, TURNO_PORT_BUSY. */
export async function startServer(options: ServerOptions): Promise<WebServer> {
  const { settings, stores } = options;
  checkListenAddress({ host: settings.host, keys: parseApiKeys(settings.keys) });
  await checkSchema(stores.database);
  const app = composeWebApp(options);
  for (let port = settings.port; ; port += 1) {
    try {
      return await startWebServer({ app, host: settings.host, port, clock: systemClock });
    } catch (error) {
      const isBusy = (error as { code?: unknown }).code === "TURNO_PORT_BUSY";
      const isLast = port >= Math.min(settings.port + PORT_TRIES, LAST_PORT);
      if (!isBusy || !options.passBusyPorts || isLast) throw error;
      options.logger.warn("the port is taken, the next one is tried", { port });
    }
  }
}

/** Carries the outbox to the broker while the installation has this one. */
export function startServerDispatching(options: {
  readonly stores: Stores;
  readonly transport: OpenedTransport;
  readonly logger: Logger;
}): Dispatching {
  const { stores, transport, logger } = options;
  return startDispatching({
    ...transport,
    store: stores.outbox,
    doorbell: stores.doorbell,
    clock: systemClock,
    random: systemRandom,
    observer: createEventLog(logger),
  });
}

export interface WorkerOptions {
  readonly stores: Stores;
  readonly transport: OpenedTransport;
  readonly settings: RuntimeSettings;
  /** Folder of the project, where bundles are kept and commands run. */
  readonly root: string;
  readonly bundlesDir: string;
  /** Variables that handlers in threads see beside the process's own. */
  readonly handlerEnv: Readonly<Record<string, string>>;
  readonly logger: Logger;
}

/** The worker role: runs jobs, and leads scheduling, recovery and clean-up when elected. */
export async function startWorker(
  options: WorkerOptions,
): Promise<{ readonly role: WorkerRole; readonly readFigures: () => ProcessFigures; stop(): Promise<void> }> {
  const { stores, transport, settings, logger } = options;
  await checkSchema(stores.database);
  await stores.cleanup.preparePartitions();
  const ending = new AbortController();
  const host = createHandlerHost({
    projectRoot: options.root,
    bundlesDir: options.bundlesDir,
    loadBundle: (hash) => stores.executions.loadBundle(hash),
    prepareChild: createChildIntake({
      store: stores.jobs,
      ids: systemIds,
      validatePayload: createPayloadValidator(),
      clock: systemClock,
      signal: ending.signal,
    }),
    threadEnv: options.handlerEnv,
    clock: systemClock,
    logger,
  });
  const id = systemIds.workerId();
  const observer = createEventCounters(createEventLog(logger));
  const role = await startWorkerRole({
    info: { id, name: `${hostname()}-${id.slice(-4)}`, host: hostname(), pid: process.pid, version: VERSION },
    store: {
      ...stores.executions,
      ...stores.leases,
      ...stores.schedules,
      ...stores.pauses,
      ...stores.slas,
      ...stores.workers,
      ...stores.cleanup,
      ...stores.outbox,
    },
    host,
    doorbell: stores.doorbell,
    dispatch: transport,
    ids: systemIds,
    settings,
    checkPayload: createPayloadCheck(),
    wallMs: () => Date.now(),
    clock: systemClock,
    random: systemRandom,
    observer,
  });
  return {
    role,
    readFigures: observer.read,
    async stop() {
      await role.stop();
      ending.abort();
      await host.close();
    },
  };
}

/** The health checks and metrics of a worker, which has no API: 503 while the database does not hear it, leases cannot be renewed or its broker is away. */
export async function startWorkerHealth(options: {
  /** Null: the worker has not started yet. */
  readonly readiness: () => ReturnType<WorkerRole["readiness"]> | null;
  readonly transport: () => OpenedTransport;
  /** Absent: the worker has no metrics. */
  readonly monitoring?: {
    readonly stores: Pick<Stores, "metrics">;
    readonly readFigures: () => ProcessFigures | null;
    readonly settings: Pick<RuntimeSettings["api"], "keys">;
  };
  readonly host: string;
  readonly port: number;
  readonly logger: Logger;
}): Promise<WebServer> {
  const { readiness, transport, monitoring, host, port, logger } = options;
  const check = (up: boolean): HealthCheck => ({ status: up ? "up" : "down", detail: null });
  const app = createHealthApp({
    logger,
    ...(monitoring === undefined
      ? {}
      : {
          monitoring: {
            metrics: monitoring.stores.metrics,
            readProcess: monitoring.readFigures,
            keys: parseApiKeys(monitoring.settings.keys),
          },
        }),
    health: async () => {
      const { database, leases } = readiness() ?? { database: false, leases: true };
      return { database: check(database), leases: check(leases), ...checkTransport(transport()) };
    },
  });
  return startWebServer({ app, host, port, clock: systemClock });
}

/** The health checks and metrics of a reconciler: 503 while the database is away, and while it does not follow the files. */
export async function startReconcilerHealth(options: {
  readonly stores: Stores;
  readonly isFollowing: () => boolean;
  readonly settings: { readonly api: Pick<RuntimeSettings["api"], "keys"> };
  readonly host: string;
  readonly port: number;
  readonly logger: Logger;
}): Promise<WebServer> {
  const { stores, isFollowing, settings, host, port, logger } = options;
  const app = createHealthApp({
    logger,
    monitoring: { metrics: stores.metrics, keys: parseApiKeys(settings.api.keys) },
    health: async () => ({
      database: await checkDatabase(stores, logger),
      files: { status: isFollowing() ? "up" : "down", detail: null },
    }),
  });
  return startWebServer({ app, host, port, clock: systemClock });
}

async function checkDatabase({ database }: Stores, logger: Logger): Promise<HealthCheck> {
  try {
    await database.query("select 1");
    return { status: "up", detail: null };
  } catch (error) {
    logger.debug("the health check found the database away", { error: describeError(error) });
    return { status: "down", detail: describeError(error) };
  }
}

/** Compiles each definition's schema once. */
function createPayloadCheck(): (definition: JobDefinition, payload: Json) => string | null {
  const compiled = new WeakMap<JobDefinition, CompiledPayloadSchema>();
  return (definition, payload) => {
    if (definition.payloadSchema === null) return null;
    let schema = compiled.get(definition);
    if (schema === undefined) {
      schema = compilePayloadSchema(definition.payloadSchema);
      compiled.set(definition, schema);
    }
    const [problem] = schema.ok ? schema.validate(payload) : schema.problems;
    return problem === undefined
      ? null
      : `the payload does not fit the job's schema: ${problem.pointer || "/"} ${problem.message}`;
  };
}

export interface ReconcilerOptions {
  readonly stores: Stores;
  readonly root: string;
  readonly loadProject: (files: ProjectSnapshot["files"]) => LoadedProject;
  /** A command's name, for the history. */
  readonly appliedBy: string;
  /** The database belongs to this folder alone. */
  readonly takeOver: boolean;
  /** Where the files come from; absent: the folder. */
  readonly look?: LookOptions;
  /** Somebody has confirmed what is held back. */
  readonly confirm?: boolean;
  readonly staleAfterMs?: number;
  readonly logger: Logger;
}

/** The reconciler role: brings the files of a source into force. */
export function composeReconciler(options: ReconcilerOptions): Reconciler {
  const look = options.look ?? lookOptions(options);
  return createReconciler({
    source: look.source,
    look: createLook(look),
    store: options.stores.revisions,
    doorbell: options.stores.doorbell,
    logger: options.logger,
    appliedBy: `${hostname()} ${options.appliedBy}`,
    takeOver: options.takeOver,
    confirm: options.confirm ?? false,
    requests: options.stores.doorbell,
    ...(options.staleAfterMs === undefined ? {} : { staleAfterMs: options.staleAfterMs }),
  });
}

/** Follows the folder's files until it is stopped. */
export function startReconciler(reconciler: Reconciler, logger: Logger): ReturnType<Reconciler["start"]> {
  return reconciler.start({ clock: systemClock, random: systemRandom, observer: createEventLog(logger) });
}

/** The folder's source, and how its files and handlers are read; what plan and apply look with. */
export function lookOptions({
  root,
  loadProject,
  logger,
}: Pick<ReconcilerOptions, "root" | "loadProject" | "logger">): LookOptions {
  return {
    source: openFolderSource({ root, logger }),
    loadProject,
    bundleHandlers: ({ handlersDir, entries }) => bundleHandlers({ root, handlersDir, entries }),
  };
}
