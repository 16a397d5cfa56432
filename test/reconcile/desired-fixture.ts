import { standardPolicy } from "../../runtime/config/normalize.ts";
import type {
  DeclaredObject,
  JobObject,
  JobSpec,
  PolicyObject,
  PolicySpec,
  ProjectObject,
  QueueObject,
  RuntimeSettings,
  ScheduleObject,
  ScheduleSpec,
} from "../../runtime/config/objects.ts";
import type { AppliedState, HandlerBundle } from "../../runtime/protocol/ports/revisions.ts";
import { composeDesired, type Desired } from "../../runtime/reconcile/desired.ts";

const DAY_MS = 86_400_000;
const RETENTION = { succeededMs: 7 * DAY_MS, cancelledMs: 7 * DAY_MS, failedMs: 30 * DAY_MS };
const RUNTIME: RuntimeSettings = {
  database: { url: null, poolSize: 10 },
  broker: {
    transport: "postgres",
    prefix: "turno",
    rabbitmq: { url: null, vhost: null, tls: { ca: null, cert: null, key: null, serverName: null } },
    servicebus: { connectionString: null },
  },
  locks: { driver: "none", redlock: { urls: [], prefix: "turno", expiryMs: 30_000 } },
  samples: false,
  worker: {
    queues: [{ name: "default", concurrency: 4 }],
    leaseDurationMs: 60_000,
    leaseRenewalMs: 10_000,
    heartbeatMs: 5_000,
    maxClockSkewMs: 30_000,
    shutdownTimeoutMs: 30_000,
  },
  scheduler: { intervalMs: 2_000, batchSize: 200 },
  recovery: { intervalMs: 10_000 },
  retention: { ...RETENTION, workersMs: DAY_MS },
  api: { port: 8080, host: "127.0.0.1", keys: null, allowedOrigins: [] },
};

const place = { labels: {}, description: null, file: "turno.d/a.yaml" };

export function project(runtime: Partial<RuntimeSettings> = {}): ProjectObject {
  const spec = {
    include: ["turno.d/**/*.yaml"],
    timeZone: "UTC",
    handlers: "handlers",
    runtime: { ...RUNTIME, ...runtime },
  };
  return { ...place, kind: "Project", name: "test", spec, file: "turno.yaml", line: 2 };
}

export function policy(name: string, spec: Partial<PolicySpec> = {}): PolicyObject {
  return { ...place, kind: "Policy", name, line: 5, spec: { ...standardPolicy(), ...spec } };
}

export function job(name: string, spec: Partial<JobSpec> = {}): JobObject {
  return {
    ...place,
    kind: "Job",
    name,
    line: 10,
    spec: {
      handler: `${name}.ts`,
      queue: "default",
      policy: "standard",
      timeoutMs: null,
      settings: {},
      isolation: "thread",
      payloadSchema: null,
      retention: RETENTION,
      ...spec,
    },
  };
}

export function schedule(name: string, spec: Partial<ScheduleSpec> = {}): ScheduleObject {
  return {
    ...place,
    kind: "Schedule",
    name,
    line: 20,
    spec: {
      job: "a",
      timing: { kind: "cron", expression: "0 1 * * *", timeZone: "UTC" },
      timeZone: "UTC",
      payload: null,
      concurrencyPolicy: "Forbid",
      misfirePolicy: "latest",
      runOnStart: false,
      suspend: false,
      ...spec,
    },
  };
}

export function queue(name: string, concurrency: number | null, suspend = false): QueueObject {
  return { ...place, kind: "Queue", name, line: 30, spec: { concurrency, suspend } };
}

export function cron(expression: string, timeZone = "UTC") {
  return { timing: { kind: "cron", expression, timeZone } } as const;
}

/** What the files ask for, each job's handler bundled; `code` makes another bundle of the same handler. */
export function desire(
  objects: readonly DeclaredObject[],
  options: { code?: string; project?: ProjectObject } = {},
): Desired {
  const all = [...objects].sort((left, right) =>
    `${left.kind}/${left.name}` < `${right.kind}/${right.name}` ? -1 : 1,
  );
  const handlers = new Set(all.flatMap((object) => (object.kind === "Job" ? [object.spec.handler] : [])));
  const bundles = [...handlers].map((handler): HandlerBundle => {
    const code = options.code ?? "export default 1;";
    return { hash: `sha256:${handler}:${code}`, handler, code, externals: {} };
  });
  const includedFiles = new Set(all.map(({ file }) => file).filter((file) => file !== "turno.yaml")).size;
  return composeDesired({ project: options.project ?? project(), objects: all, includedFiles }, bundles);
}

/** An installation before its first apply. */
export function nothingApplied(now: string): AppliedState {
  return {
    now: new Date(now),
    coldStarts: 1,
    owner: null,
    inForce: null,
    project: null,
    objects: [],
    jobTypes: [],
    schedules: [],
  };
}
