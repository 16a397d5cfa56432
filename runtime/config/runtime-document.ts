import { formatDuration, parseDuration } from "../core/duration.ts";
import type { RetentionSpec, RuntimeSettings } from "./objects.ts";
import type { RuntimeDocument } from "./schema.generated.ts";

/** `spec.runtime` as written → settings: durations in milliseconds, references to secrets still as text. */
export function readRuntime(document: RuntimeDocument): RuntimeSettings {
  const { database, worker, scheduler, recovery, retention, api } = document;
  return {
    database: { url: database.url ?? null, poolSize: database.poolSize },
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
  const { database, worker, scheduler, recovery, retention, api } = settings;
  return {
    database: { ...(database.url === null ? {} : { url: database.url }), poolSize: database.poolSize },
    broker: { transport: "postgres" },
    locks: { driver: "none" },
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
  const { worker } = document;
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
  return problems;
}

function readRetention(retention: RuntimeDocument["retention"]): RetentionSpec {
  return {
    succeededMs: parseDuration(retention.succeeded),
    cancelledMs: parseDuration(retention.cancelled),
    failedMs: parseDuration(retention.failed),
  };
}
