import { formatDuration, parseDuration } from "../core/duration.ts";
import type { RetentionSpec, RuntimeSettings } from "./objects.ts";
import type { RuntimeDocument } from "./schema.generated.ts";

/** `spec.runtime` as written → settings: durations in milliseconds, references to secrets still as text. */
export function readRuntime(document: RuntimeDocument): RuntimeSettings {
  const { database, broker, locks, worker, scheduler, recovery, retention, api } = document;
  const { tls } = broker.rabbitmq;
  return {
    database: { url: database.url ?? null, poolSize: database.poolSize },
    broker: {
      transport: broker.transport,
      prefix: broker.prefix,
      rabbitmq: {
        url: broker.rabbitmq.url ?? null,
        vhost: broker.rabbitmq.vhost ?? null,
        tls: {
          ca: tls.ca ?? null,
          cert: tls.cert ?? null,
          key: tls.key ?? null,
          serverName: tls.serverName ?? null,
        },
      },
      servicebus: { connectionString: broker.servicebus.connectionString ?? null },
    },
    locks: {
      driver: locks.driver,
      redlock: {
        urls: locks.redlock.urls,
        prefix: locks.redlock.prefix,
        expiryMs: parseDuration(locks.redlock.expiry),
      },
    },
    samples: document.samples,
    worker: {
      queues: worker.queues,
      leaseDurationMs: parseDuration(worker.leaseDuration),
      leaseRenewalMs: parseDuration(worker.leaseRenewal),
      heartbeatMs: parseDuration(worker.heartbeat),
      maxClockSkewMs: parseDuration(worker.maxClockSkew),
      shutdownTimeoutMs: parseDuration(worker.shutdownTimeout),
    },
    scheduler: { intervalMs: parseDuration(scheduler.interval), batchSize: scheduler.batchSize },
    recovery: { intervalMs: parseDuration(recovery.interval) },
    retention: { ...readRetention(retention), workersMs: parseDuration(retention.workers) },
    api: {
      port: api.port,
      host: api.host,
      keys: api.keysFrom === undefined ? null : `\${${api.keysFrom}}`,
      allowedOrigins: api.allowedOrigins,
    },
  };
}

/** The inverse of {@link readRuntime}, for laying the environment's overrides over it. */
export function writeRuntime(settings: RuntimeSettings): RuntimeDocument {
  const { database, broker, locks, worker, scheduler, recovery, retention, api } = settings;
  return {
    database: { ...optional("url", database.url), poolSize: database.poolSize },
    broker: {
      transport: broker.transport,
      prefix: broker.prefix,
      rabbitmq: {
        ...optional("url", broker.rabbitmq.url),
        ...optional("vhost", broker.rabbitmq.vhost),
        tls: {
          ...optional("ca", broker.rabbitmq.tls.ca),
          ...optional("cert", broker.rabbitmq.tls.cert),
          ...optional("key", broker.rabbitmq.tls.key),
          ...optional("serverName", broker.rabbitmq.tls.serverName),
        },
      },
      servicebus: optional("connectionString", broker.servicebus.connectionString),
    },
    locks: {
      driver: locks.driver,
      redlock: {
        urls: locks.redlock.urls,
        prefix: locks.redlock.prefix,
        expiry: formatDuration(locks.redlock.expiryMs),
      },
    },
    samples: settings.samples,
    worker: {
      queues: worker.queues,
      leaseDuration: formatDuration(worker.leaseDurationMs),
      leaseRenewal: formatDuration(worker.leaseRenewalMs),
      heartbeat: formatDuration(worker.heartbeatMs),
      maxClockSkew: formatDuration(worker.maxClockSkewMs),
      shutdownTimeout: formatDuration(worker.shutdownTimeoutMs),
    },
    scheduler: { interval: formatDuration(scheduler.intervalMs), batchSize: scheduler.batchSize },
    recovery: { interval: formatDuration(recovery.intervalMs) },
    retention: {
      succeeded: formatDuration(retention.succeededMs),
      cancelled: formatDuration(retention.cancelledMs),
      failed: formatDuration(retention.failedMs),
      workers: formatDuration(retention.workersMs),
    },
    api: {
      port: api.port,
      host: api.host,
      ...(api.keys === null ? {} : { keysFrom: api.keys.replace(/^\$\{(.*)\}$/, "$1") }),
      allowedOrigins: api.allowedOrigins,
    },
  };
}

/** What the schema cannot say: rules between settings. Paths start at `spec.runtime`. */
export function checkRuntime(
  document: RuntimeDocument,
): readonly { readonly path: readonly (string | number)[]; readonly message: string }[] {
  const { worker, locks, broker } = document;
  const problems: { path: readonly (string | number)[]; message: string }[] = [];
  if (parseDuration(worker.leaseRenewal) * 3 > parseDuration(worker.leaseDuration)) {
    const message = `expected at most a third of leaseDuration (${worker.leaseDuration}), found ${worker.leaseRenewal}`;
    problems.push({ path: ["worker", "leaseRenewal"], message });
  }
  for (const [index, { name }] of worker.queues.entries()) {
    if (worker.queues.findIndex((queue) => queue.name === name) < index) {
      problems.push({ path: ["worker", "queues", index, "name"], message: `the queue ${name} is listed twice` });
    }
  }
  const nodes = locks.redlock.urls.length;
  if (nodes > 0 && nodes % 2 === 0) {
    const message = `expected an odd number of Redis nodes, since a lock needs more than half of them, found ${nodes}`;
    problems.push({ path: ["locks", "redlock", "urls"], message });
  }
  const { cert, key } = broker.rabbitmq.tls;
  if ((cert === undefined) !== (key === undefined)) {
    const [given, missing] = key === undefined ? ["cert", "key"] : ["key", "cert"];
    const message = `expected ${missing} beside ${given}, found only ${given}`;
    problems.push({ path: ["broker", "rabbitmq", "tls", given], message });
  }
  return problems;
}

/** What works otherwise than its reader may expect. Paths start at `spec.runtime`. */
export function adviseRuntime({ broker, locks }: RuntimeDocument): ReturnType<typeof checkRuntime> {
  if (locks.driver === "none" || broker.transport !== "postgres") return [];
  const message =
    "locks are taken on broker transports only; on postgres a job is locked by its row, and no Redis is asked";
  return [{ path: ["locks", "driver"], message }];
}

function optional<Name extends string>(name: Name, value: string | null): { readonly [key in Name]?: string } {
  return (value === null ? {} : { [name]: value }) as { readonly [key in Name]?: string };
}

function readRetention(retention: RuntimeDocument["retention"]): RetentionSpec {
  return {
    succeededMs: parseDuration(retention.succeeded),
    cancelledMs: parseDuration(retention.cancelled),
    failedMs: parseDuration(retention.failed),
  };
}
