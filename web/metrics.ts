import type { Hono } from "hono";
import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { Figure, InstallationFigures, MetricsQueries, ProcessFigures } from "../runtime/protocol/ports/metrics.ts";
import { addPath } from "./methods.ts";
import type { WebEnv } from "./ports.ts";

interface Metric<Figures> {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly read: (figures: Figures) => readonly Figure[];
}

const one = (value: number): readonly Figure[] => [{ labels: [], value }];

/** What any process of an installation tells alike: it is read from the database. */
export const INSTALLATION_METRICS: readonly Metric<InstallationFigures>[] = [
  {
    name: "turno_jobs",
    help: "Jobs that are not finished, by queue and state.",
    labels: ["queue", "state"],
    read: (f) => f.jobs,
  },
  {
    name: "turno_queue_head_wait_seconds",
    help: "How long ago the job was due that a worker would take next from the queue.",
    labels: ["queue"],
    read: (f) => f.headWaitSeconds,
  },
  { name: "turno_jobs_held", help: "Jobs that wait for something, by what.", labels: ["hold"], read: (f) => f.held },
  {
    name: "turno_jobs_ended_1h",
    help: "Jobs that ended within the last hour, by queue and state.",
    labels: ["queue", "state"],
    read: (f) => f.ended,
  },
  {
    name: "turno_schedule_fires_1h",
    help: "Instants of schedules that were decided within the last hour, by outcome.",
    labels: ["outcome"],
    read: (f) => f.fires,
  },
  {
    name: "turno_schedule_lateness_seconds",
    help: "The largest lateness of a fire within the last hour.",
    labels: [],
    read: (f) => one(f.largestLatenessSeconds),
  },
  {
    name: "turno_sla_misses_24h",
    help: "Runs that were expected and did not come, noticed within the last 24 hours.",
    labels: ["expectation"],
    read: (f) => f.slaMisses,
  },
  {
    name: "turno_schedules_paused",
    help: "Schedules with a pause above the files.",
    labels: [],
    read: (f) => one(f.schedulesPaused),
  },
  { name: "turno_sync_sources", help: "Sources of files, by state.", labels: ["state"], read: (f) => f.sync },
  {
    name: "turno_sync_age_seconds",
    help: "How long ago the files last answered a reconciler.",
    labels: [],
    read: (f) => one(f.syncAgeSeconds),
  },
  { name: "turno_leader", help: "1 for each duty that a worker leads.", labels: ["duty"], read: (f) => f.leaders },
  { name: "turno_workers", help: "Workers with a heartbeat.", labels: [], read: (f) => one(f.workers) },
  {
    name: "turno_workers_failing_renewals",
    help: "Workers that cannot renew their leases.",
    labels: [],
    read: (f) => one(f.workersFailingRenewals),
  },
  {
    name: "turno_handlers_stuck",
    help: "Handlers that go on running although they were to be ended.",
    labels: [],
    read: (f) => one(f.handlersStuck),
  },
  {
    name: "turno_outbox_messages",
    help: "Messages that no broker has confirmed.",
    labels: [],
    read: (f) => one(f.outboxMessages),
  },
  {
    name: "turno_outbox_oldest_seconds",
    help: "How long ago the oldest of these was written.",
    labels: [],
    read: (f) => one(f.outboxOldestSeconds),
  },
  {
    name: "turno_dead_letters_pending",
    help: "Dead letters that nobody has dealt with.",
    labels: [],
    read: (f) => one(f.deadLetters),
  },
];

/** What a worker tells of itself; counters since it started. */
export const PROCESS_METRICS: readonly (Metric<ProcessFigures> & { readonly kind: "counter" | "gauge" })[] = [
  {
    kind: "counter",
    name: "turno_executions_started_total",
    help: "Executions that this process started, by job type.",
    labels: ["type"],
    read: (f) => f.started,
  },
  {
    kind: "counter",
    name: "turno_executions_total",
    help: "Executions of this process that ended, by job type and outcome.",
    labels: ["type", "outcome"],
    read: (f) => f.executions,
  },
  {
    kind: "counter",
    name: "turno_executions_lost_total",
    help: "Executions of lost workers that this process took back while it led recovery.",
    labels: [],
    read: (f) => one(f.lost),
  },
  {
    kind: "gauge",
    name: "turno_renewals_failing",
    help: "1 while this process cannot renew its leases.",
    labels: [],
    read: (f) => one(f.renewalsFailing ? 1 : 0),
  },
];

export interface MetricsSources {
  readonly metrics: MetricsQueries;
  /** Absent: the process runs no jobs. */
  readonly readProcess?: () => ProcessFigures | null;
}

/** `/metrics` for Prometheus; one scrape costs the database one statement. */
export function addMetrics(app: Hono<WebEnv>, { metrics, readProcess }: MetricsSources): void {
  let ofNode: Registry | null = null;
  addPath(app, "/metrics", {
    async get(c) {
      if (ofNode === null) {
        ofNode = new Registry();
        collectDefaultMetrics({ register: ofNode });
      }
      const registry = new Registry();
      const figures = await metrics.loadFigures();
      for (const { name, help, labels, read } of INSTALLATION_METRICS) {
        const gauge = new Gauge({ name, help, labelNames: labels, registers: [registry] });
        for (const figure of read(figures)) gauge.set(named(labels, figure), figure.value);
      }
      const own = readProcess?.() ?? null;
      for (const { kind, name, help, labels, read } of own === null ? [] : PROCESS_METRICS) {
        const options = { name, help, labelNames: labels, registers: [registry] };
        const metric = kind === "counter" ? new Counter(options) : new Gauge(options);
        for (const figure of own === null ? [] : read(own)) metric.inc(named(labels, figure), figure.value);
      }
      const text = await Registry.merge([registry, ofNode]).metrics();
      return c.body(text, 200, { "Content-Type": registry.contentType });
    },
  });
}

function named(labels: readonly string[], figure: Figure): Record<string, string> {
  return Object.fromEntries(labels.map((label, index) => [label, figure.labels[index] ?? ""]));
}
