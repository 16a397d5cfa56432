import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createEventCounters } from "../../runtime/adapters/system/event-counters.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import {
  type InstallationFigures,
  type MetricsQueries,
  MOST_LABEL_VALUES,
} from "../../runtime/protocol/ports/metrics.ts";
import { parseApiKeys } from "../../web/auth.ts";
import { createHealthApp } from "../../web/health-app.ts";
import { INSTALLATION_METRICS, PROCESS_METRICS } from "../../web/metrics.ts";

const FIGURES: InstallationFigures = {
  jobs: [{ labels: ['we "quote"\n', "Enqueued"], value: 3 }],
  headWaitSeconds: [{ labels: ["default"], value: 1.5 }],
  held: [{ labels: ["key"], value: 1 }],
  ended: [{ labels: ["default", "Failed"], value: 2 }],
  fires: [{ labels: ["missed"], value: 1 }],
  largestLatenessSeconds: 2,
  slaMisses: [{ labels: ["max-age"], value: 4 }],
  schedulesPaused: 1,
  sync: [{ labels: ["Invalid"], value: 1 }],
  syncAgeSeconds: 30,
  leaders: [{ labels: ["recovery"], value: 1 }],
  workers: 2,
  workersFailingRenewals: 0,
  handlersStuck: 0,
  outboxMessages: 5,
  outboxOldestSeconds: 61,
  deadLetters: 6,
};
const metrics: MetricsQueries = { loadFigures: () => Promise.resolve(FIGURES) };
const KEY = "a-key-to-read-by";
const KEYS = `scraper:read:${createHash("sha256").update(KEY).digest("hex")}`;

function monitored(keys: string | null, counters = createEventCounters({ observe() {} })) {
  return createHealthApp({
    logger: silentLogger,
    health: () => Promise.resolve({ database: { status: "up", detail: null } }),
    monitoring: { metrics, readProcess: counters.read, keys: parseApiKeys(keys) },
  });
}

describe("metrics", () => {
  it("tell every metric of the page, those of the process too, with labels escaped", async () => {
    const counters = createEventCounters({ observe() {} });
    const job = { jobId: "j" as never, type: "mail" };
    counters.observe({ kind: "job-started", ...job, execution: 1 });
    counters.observe({ kind: "job-finished", ...job, outcome: "succeeded", ranMs: 1, error: null });
    counters.observe({ kind: "fenced", ...job, outcome: "succeeded" });
    counters.observe({ kind: "worker-lost", jobId: "j" as never, workerId: "w" as never, next: "Scheduled" });
    counters.observe({ kind: "leases-failing", held: 1, message: "away" });
    const response = await monitored(null, counters).request("http://localhost/metrics");
    expect(response.headers.get("content-type")).toContain("text/plain; version=0.0.4");
    const text = await response.text();
    for (const { name } of [...INSTALLATION_METRICS, ...PROCESS_METRICS]) expect(text).toContain(`\n# TYPE ${name} `);
    expect(text).toContain('turno_jobs{queue="we \\"quote\\"\\n",state="Enqueued"} 3\n');
    expect(text).toContain('turno_executions_total{type="mail",outcome="fenced"} 1\n');
    expect(text).toContain('turno_executions_started_total{type="mail"} 1\n');
    expect(text).toContain("turno_executions_lost_total 1\n");
    expect(text).toContain("turno_renewals_failing 1\n");
    expect(text).toContain("process_cpu_seconds_total");
  });

  it("are the same at the second scrape, and follow the figures", async () => {
    const app = monitored(null);
    const ask = async () => (await app.request("http://localhost/metrics")).text();
    await ask();
    expect(await ask()).toContain("turno_dead_letters_pending 6\n");
  });

  it("are told to a key with the scope read, and without keys to the machine itself alone", async () => {
    const withKeys = monitored(KEYS);
    expect((await withKeys.request("http://worker.internal/metrics")).status).toBe(401);
    const headers = { Authorization: `Bearer ${KEY}` };
    expect((await withKeys.request("http://worker.internal/metrics", { headers })).status).toBe(200);
    expect((await withKeys.request("http://worker.internal/health/live")).status).toBe(200);
    const open = monitored(null);
    expect((await open.request("http://localhost/metrics")).status).toBe(200);
    expect((await open.request("http://worker.internal/metrics")).status).toBe(421);
    expect((await open.request("http://localhost/metrics", { method: "POST" })).status).toBe(405);
  });

  it("have no more job types than their bound, and count the others together", () => {
    const counters = createEventCounters({ observe() {} });
    for (let index = 0; index < 300; index += 1) {
      counters.observe({ kind: "job-started", jobId: "j" as never, type: `type-${index}`, execution: 1 });
    }
    const { started } = counters.read();
    expect(started).toHaveLength(MOST_LABEL_VALUES + 1);
    expect(started.find(({ labels }) => labels[0] === "other")?.value).toBe(200);
  });
});
