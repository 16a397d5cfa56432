import { createHash } from "node:crypto";
import type { JobDefinition } from "../../runtime/config/objects.ts";
import { createPayloadValidator } from "../../runtime/config/payload.ts";
import type { JobId, WorkerId } from "../../runtime/core/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { CreatedJob, NewJob } from "../../runtime/protocol/ports/jobs.ts";
import type { JobDetail, JobFilter, PanelQueries } from "../../runtime/protocol/ports/panel.ts";
import { createJobIntake } from "../../runtime/services/intake.ts";
import { createWebApp } from "../../web/app.ts";
import { parseApiKeys } from "../../web/auth.ts";
import type { WebPorts } from "../../web/ports.ts";
import { testId } from "./seed.ts";

export const NOW = new Date("2026-10-01T18:20:00.000Z");

export const JOB: JobDetail = {
  id: testId(1),
  type: "file.process",
  queue: "default",
  state: "Failed",
  hold: null,
  priority: 0,
  payload: { path: "in" },
  result: null,
  resultError: null,
  error: "502",
  progress: 0,
  progressMessage: null,
  attempt: 5,
  maxAttempts: 5,
  timeoutMs: 600_000,
  execution: 5,
  lost: 0,
  generation: 0,
  concurrencyKey: null,
  runAt: NOW,
  createdAt: NOW,
  startedAt: NOW,
  finishedAt: NOW,
  cancelRequested: false,
  worker: "worker-7f3a",
  schedule: null,
  firedFor: null,
  lateByMs: null,
  source: { revision: 3, file: "turno.d/x.yaml", line: 4, commit: null, author: null },
  now: NOW,
  attempts: [
    {
      execution: 5,
      worker: "worker-7f3a",
      outcome: "failed",
      startedAt: NOW,
      finishedAt: NOW,
      durationMs: 12,
      error: "502",
      stack: "Error: 502\n    at run",
      bundle: "sha256:9b1f",
      revision: 3,
    },
  ],
  timeline: [{ at: NOW, from: null, to: "Enqueued", reason: "created" }],
  parent: null,
  children: [],
  hasMoreChildren: false,
  runsAlone: null,
  fence: "884213",
  commitMessage: null,
  committedAt: null,
};

const DEFINITION: JobDefinition = {
  type: "file.process",
  handler: "file/process.ts",
  bundleHash: null,
  queue: "default",
  timeoutMs: 600_000,
  isolation: "thread",
  settings: {},
  payloadSchema: { type: "object", properties: { lote: { type: "integer", minimum: 1 } } },
  retention: { succeededMs: 1, cancelledMs: 1, failedMs: 1 },
  policy: {
    immediateRetry: { attempts: 0, initialMs: 500 },
    retry: { maxAttempts: 5, backoff: { type: "fixed", initialMs: 1, maxMs: 1, jitter: 0 } },
    timeoutMs: 600_000,
    maxLost: 3,
    maxLostUnstarted: 20,
    maxReturns: 20,
  },
};

export const fakePanel: PanelQueries = {
  loadPulse: async () => ({ jobs: "1", workers: "1", sync: "1" }),
  loadStatistics: async () => ({
    now: NOW,
    queued: 1204,
    running: 17,
    scheduled: 86,
    workers: 3,
    slots: 24,
    deadLetters: 3,
    lastDay: { succeeded: 48_310, failed: 62, cancelled: 0, executions: 48_372, meanMs: 1800 },
    minutes: [],
  }),
  listJobs: async () => ({ now: NOW, items: [JOB], next: null }),
  loadJob: async (id) => (id === JOB.id ? JOB : null),
  listWorkers: async () => ({ now: NOW, items: [] }),
  listJobTypes: async () => [],
  listQueues: async () => ({ now: NOW, items: [] }),
  listSchedules: async () => ({ now: NOW, items: [], next: null }),
  listFires: async () => new Map(),
  listConcerns: async () => [],
  loadRevision: async () => null,
  loadSync: async () => null,
};

/** An application over fakes, with what reached them. */
export function createTestApp(overrides: Partial<WebPorts> & { readonly keys?: WebPorts["keys"] } = {}) {
  const inserted: NewJob[] = [];
  const filters: JobFilter[] = [];
  let next = 0x100;
  const ids = { jobId: () => testId(next++) as JobId, workerId: () => "w" as WorkerId };
  const answers = new Map<string, { requestHash: string; created: readonly CreatedJob[] }>();
  const insert = (jobs: readonly NewJob[]): { created: readonly CreatedJob[] } => {
    inserted.push(...jobs);
    return { created: jobs.map(({ id, queue }) => ({ id, state: "Enqueued", queue: queue ?? "default" })) };
  };
  const intake = createJobIntake({
    ids,
    validatePayload: createPayloadValidator(),
    store: {
      loadJobTypes: async (types) =>
        new Map(types.filter((type) => type === DEFINITION.type).map((type) => [type, DEFINITION])),
      insertJobs: async (jobs) => insert(jobs),
      insertJobsOnce: async (jobs, { scope, key, requestHash }) => {
        const first = answers.get(`${scope}/${key}`);
        if (first !== undefined)
          return first.requestHash === requestHash ? { replayed: first.created } : { refused: "other-request" };
        const outcome = insert(jobs);
        answers.set(`${scope}/${key}`, { requestHash, ...outcome });
        return outcome;
      },
    },
  });
  const panel: PanelQueries = {
    ...fakePanel,
    ...overrides.panel,
    listJobs: (filter) => {
      filters.push(filter);
      return (overrides.panel ?? fakePanel).listJobs(filter);
    },
  };
  const app = createWebApp({
    intake,
    ids,
    jobs: {
      cancelJob: async () => ({ kind: "cancelled" }),
      requeueJob: async () => ({ kind: "requeued" }),
      deleteJob: async () => ({ kind: "deleted" }),
    },
    schedules: { triggerSchedule: async (name, jobId) => (name === "nightly" ? jobId : null) },
    revisions: {
      list: async () => [],
      find: async () => null,
      rollBack: async () => ({ words: [], revision: null }),
      status: async () => [],
      requestSync: () => {},
    },
    pauses: { pause: async () => ({ kind: "not-found" }), resume: async () => ({ kind: "not-found" }) },
    history: { loadSchedule: async () => null, listRecords: async () => [] },
    forecastFires: () => [],
    health: async () => ({ database: { status: "up", detail: null } }),
    keys: null,
    sessionSecret: new Uint8Array(32),
    clock: { monotonicMs: () => 0, sleep: () => new Promise(() => undefined) },
    logger: silentLogger,
    settings: { version: "0.1.0", allowedOrigins: [] },
    ...overrides,
    panel,
  });
  return { app, inserted, filters };
}

export const READ_KEY = "read-key";
export const OPERATE_KEY = "operate-key";

export function testKeys() {
  const entry = (name: string, scope: string, key: string) =>
    `${name}:${scope}:${createHash("sha256").update(key).digest("hex")}`;
  return parseApiKeys(`${entry("viewer", "read", READ_KEY)},${entry("robot", "operate", OPERATE_KEY)}`);
}
