import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createPanelQueries } from "../../runtime/adapters/postgres/panel-queries.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { JobFilter, PanelQueries } from "../../runtime/protocol/ports/panel.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareSchedule, declareType, insertJob, insertRow, insertWorker, testId } from "../web/seed.ts";

const WORKER = "11111111-1111-4111-8111-111111111111";
const everything: JobFilter = {
  states: [],
  type: null,
  queue: null,
  schedule: null,
  revision: null,
  search: null,
  before: null,
  limit: 50,
  withData: true,
};

let testDatabase: TestDatabase;
let database: Database;
let panel: PanelQueries;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 4,
    statementTimeoutMs: 5_000,
    logger: silentLogger,
  });
  panel = createPanelQueries(database);
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});
beforeEach(() =>
  database.query(
    `truncate turno.jobs, turno.job_payloads, turno.job_attempts, turno.job_state_changes, turno.dead_letters, turno.counter_deltas,
       turno.queue_counts, turno.minute_statistics, turno.workers, turno.schedule_fires, turno.recurring_jobs, turno.job_types,
       turno.queues, turno.objects, turno.revisions cascade`,
  ),
);

describe("the list of jobs", () => {
  it("walks ids downwards over live and finished jobs, page by page", async () => {
    for (let order = 1; order <= 5; order += 1) {
      await insertJob(database, testId(order), order % 2 === 0 ? { state: "Succeeded" } : {});
    }
    const first = await panel.listJobs({ ...everything, limit: 2 });
    expect(first.items.map((job) => job.id)).toEqual([testId(5), testId(4)]);
    const second = await panel.listJobs({ ...everything, limit: 2, before: first.next });
    expect(second.items.map((job) => job.id)).toEqual([testId(3), testId(2)]);
    const third = await panel.listJobs({ ...everything, limit: 2, before: second.next });
    expect(third.items.map((job) => job.id)).toEqual([testId(1)]);
    expect(third.next).toBeNull();
  });

  it("filters by state, type, queue, schedule and revision", async () => {
    const objectId = await declareType(database, "file.process");
    await insertJob(database, testId(1), { state: "Failed", object_id: objectId });
    await insertJob(database, testId(2), { type: "report.generate", queue: "reports" });
    await insertJob(database, testId(3), { schedule: "nightly", state: "Succeeded" });
    await insertRow(database, "schedule_fires", {
      schedule: "nightly",
      fire_at: "sql:now()",
      outcome: "fired",
      job_id: testId(3),
    });
    const ids = async (filter: Partial<JobFilter>) =>
      (await panel.listJobs({ ...everything, ...filter })).items.map((job) => job.id);
    expect(await ids({ states: ["Failed"] })).toEqual([testId(1)]);
    expect(await ids({ states: ["Failed", "Enqueued"] })).toEqual([testId(2), testId(1)]);
    expect(await ids({ type: "report.generate" })).toEqual([testId(2)]);
    expect(await ids({ queue: "reports" })).toEqual([testId(2)]);
    expect(await ids({ schedule: "nightly" })).toEqual([testId(3)]);
    expect(await ids({ revision: 41 })).toEqual([testId(1)]);
    expect(await ids({ revision: 40 })).toEqual([]);
  });

  it("takes search text literally", async () => {
    const types = ["a_b", "axb", "100%", "100x", "c\\d", "c\\\\d"];
    for (const [index, type] of types.entries()) await insertJob(database, testId(index), { type });
    const found = async (search: string) =>
      (await panel.listJobs({ ...everything, search })).items.map((job) => job.type).sort();
    expect(await found("a_b")).toEqual(["a_b"]);
    expect(await found("%")).toEqual(["100%"]);
    expect(await found("100%")).toEqual(["100%"]);
    expect(await found("c\\d")).toEqual(["c\\d"]);
    expect(await found("%".repeat(1000))).toEqual([]);
  });

  it("finds a job by the beginning of its id", async () => {
    await insertJob(database, testId(0x7b1e));
    await insertJob(database, testId(0x7b1f));
    const found = async (search: string) =>
      (await panel.listJobs({ ...everything, search })).items.map((job) => job.id);
    expect(await found("019AD2C4-7b1e")).toEqual([testId(0x7b1e)]);
    expect(await found("019ad2c4")).toHaveLength(2);
    expect(await found(testId(0x7b1f))).toEqual([testId(0x7b1f)]);
  });

  it("shows a claimed job that has not started as queued", async () => {
    await insertWorker(database, WORKER);
    await insertJob(database, testId(1), { state: "Processing", worker_id: WORKER, claimed_at: "sql:now()" });
    await insertJob(database, testId(2), { state: "Processing", worker_id: WORKER, started_at: "sql:now()" });
    const states = (await panel.listJobs(everything)).items.map((job) => job.state);
    expect(states).toEqual(["Processing", "Enqueued"]);
    const running = await panel.listJobs({ ...everything, states: ["Processing"] });
    expect(running.items.map((job) => job.id)).toEqual([testId(2)]);
  });

  it("gives a short page with a cursor when it has looked at enough rows", async () => {
    await database.query(
      `insert into turno.jobs (id, final, expires_on, type, queue, state, sort_at, run_at)
       select (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid, true, current_date + 7, 'bulk', 'default', 'Succeeded', now(), now()
       from generate_series(1, 20010) n`,
    );
    await insertJob(database, "00000000-0000-7000-8000-000000000000", { type: "needle" });
    await insertJob(database, "ffffffff-0000-7000-8000-000000000000", { type: "needle" });
    const first = await panel.listJobs({ ...everything, type: "needle" });
    expect(first.items).toHaveLength(1);
    expect(first.next).not.toBeNull();
    const second = await panel.listJobs({ ...everything, type: "needle", before: first.next });
    expect(second.items).toHaveLength(1);
    expect(second.next).toBeNull();
  });
});

describe("one job", () => {
  it("comes with its attempts newest first, its timeline oldest first and the place in the files", async () => {
    const objectId = await declareType(database, "file.process");
    await insertWorker(database, WORKER);
    await insertJob(database, testId(1), {
      state: "Succeeded",
      object_id: objectId,
      execution: 2,
      failures: 1,
      created_at: "2026-10-01T10:00:00Z",
      worker_id: WORKER,
      payload: null,
      payload_external: true,
      result: '{"total":1}',
      enqueued_at: "2026-10-01T10:01:00Z",
      enqueued_why: "due",
      claimed_at: "2026-10-01T10:01:00.500Z",
      started_at: "2026-10-01T10:01:01Z",
      finished_at: "2026-10-01T10:01:02Z",
      succeeded_bundle: "sha256:9b1fc2",
      succeeded_revision: 41,
    });
    await insertRow(database, "job_payloads", { job_id: testId(1), payload: '{"path":"big"}' });
    const history = { job_id: testId(1), final: true, expires_on: "sql:current_date + 7" };
    const attempt = { ...history, dispatch_id: 1, worker_id: WORKER, bundle_hash: "sha256:9b1fc2", revision: 41 };
    await insertRow(database, "job_attempts", {
      ...attempt,
      execution: 1,
      outcome: "failed",
      error: "502",
      stack: "at x",
      started_at: "2026-10-01T10:00:01Z",
      finished_at: "2026-10-01T10:00:03Z",
    });
    const changes = [
      ["2026-10-01T10:00:03Z", "Processing", "Scheduled", "retry"],
      ["2026-10-01T10:00:01Z", "Enqueued", "Processing", "claimed"],
    ];
    for (const [at, from, to, reason] of changes) {
      await insertRow(database, "job_state_changes", { ...history, at, from_state: from, to_state: to, reason });
    }
    const job = await panel.loadJob(testId(1));
    expect(job).toMatchObject({
      state: "Succeeded",
      payload: { path: "big" },
      result: { total: 1 },
      attempt: 2,
      maxAttempts: 5,
      worker: "worker-7f3a",
      startedAt: new Date("2026-10-01T10:01:01Z"),
      source: { revision: 41, file: "turno.d/jobs.yaml", line: 4, commit: "3f2a91cbeef", author: "ana" },
      fence: "884213",
      commitMessage: "Close at 17:30 on weekdays",
    });
    expect(job?.attempts.map(({ execution, outcome, durationMs }) => [execution, outcome, durationMs])).toEqual([
      [2, "succeeded", 1000],
      [1, "failed", 2000],
    ]);
    expect(job?.attempts[0]).toMatchObject({ bundle: "sha256:9b1fc2", revision: 41 });
    expect(job?.timeline.map(({ from, to, reason }) => [from, to, reason])).toEqual([
      [null, "Enqueued", "created"],
      ["Enqueued", "Processing", "claimed"],
      ["Processing", "Scheduled", "retry"],
      ["Scheduled", "Enqueued", "due"],
      ["Enqueued", "Processing", "claimed"],
      ["Processing", "Succeeded", "finished"],
    ]);
  });

  it("names its parent and its first hundred children, and says when a parent is not kept any more", async () => {
    await insertJob(database, testId(1), { state: "Succeeded", type: "invoices" });
    await insertJob(database, testId(2), { parent_id: testId(1) });
    await insertJob(database, testId(3), { parent_id: testId(1), state: "Failed" });
    await insertJob(database, testId(4), { parent_id: testId(99) });
    const children = [
      { id: testId(2), type: "file.process", state: "Enqueued" },
      { id: testId(3), type: "file.process", state: "Failed" },
    ];
    expect(await panel.loadJob(testId(1))).toMatchObject({ parent: null, children, hasMoreChildren: false });
    const parent = { id: testId(1), type: "invoices", state: "Succeeded" };
    expect(await panel.loadJob(testId(3))).toMatchObject({ parent, children: [], hasMoreChildren: false });
    expect(await panel.loadJob(testId(4))).toMatchObject({ parent: { id: testId(99), type: null, state: null } });
    for (let order = 200; order < 300; order += 1) await insertJob(database, testId(order), { parent_id: testId(1) });
    const crowded = await panel.loadJob(testId(1));
    expect(crowded?.children).toHaveLength(100);
    expect(crowded?.hasMoreChildren).toBe(true);
  });

  it("says why a job's next execution runs alone, by the limits of its type", async () => {
    await declareType(database, "file.process");
    const limits = { maxLostUnstarted: 4, maxReturns: 3 };
    await database.query(
      "update turno.job_definitions set definition = jsonb_set(definition, '{policy}', definition -> 'policy' || $1::jsonb)",
      [JSON.stringify(limits)],
    );
    const counters = [{}, { lost: 1 }, { lost_unstarted: 3, returns: 2 }, { lost_unstarted: 4 }, { returns: 3 }];
    const reasons: unknown[] = [];
    for (const [order, values] of counters.entries()) {
      await insertJob(database, testId(order + 1), values);
      reasons.push((await panel.loadJob(testId(order + 1)))?.runsAlone);
    }
    await insertJob(database, testId(9), { lost: 3, state: "Failed" });
    reasons.push((await panel.loadJob(testId(9)))?.runsAlone);
    expect(reasons).toEqual([null, "lost", null, "lost-unstarted", "returned", null]);
  });

  it("shows a success once that an earlier version recorded beside its row", async () => {
    const times = { claimed_at: "2026-10-01T10:00:01Z", finished_at: "2026-10-01T10:00:03Z" };
    await insertJob(database, testId(1), { state: "Succeeded", worker_id: WORKER, execution: 1, ...times });
    const beside = { job_id: testId(1), final: true, expires_on: "sql:current_date + 7" };
    await insertRow(database, "job_attempts", {
      ...beside,
      dispatch_id: 884_213,
      worker_id: WORKER,
      execution: 1,
      outcome: "succeeded",
      started_at: "2026-10-01T10:00:02Z",
      finished_at: times.finished_at,
      revision: 40,
    });
    for (const [at, from, to, reason] of [
      [times.claimed_at, "Enqueued", "Processing", "claimed"],
      [times.finished_at, "Processing", "Succeeded", "finished"],
    ]) {
      await insertRow(database, "job_state_changes", { ...beside, at, from_state: from, to_state: to, reason });
    }
    const job = await panel.loadJob(testId(1));
    expect(job?.attempts.map(({ outcome, revision }) => [outcome, revision])).toEqual([["succeeded", 40]]);
    expect(job?.timeline.map(({ to, reason }) => [to, reason])).toEqual([
      ["Enqueued", "created"],
      ["Processing", "claimed"],
      ["Succeeded", "finished"],
    ]);
  });

  it("tells the part of a running job's story that no row holds yet", async () => {
    await insertJob(database, testId(1), {
      state: "Processing",
      worker_id: WORKER,
      created_at: "2026-10-01T10:00:00Z",
      enqueued_at: "2026-10-01T11:00:00Z",
      enqueued_why: "due",
      claimed_at: "2026-10-01T11:00:01Z",
      started_at: "2026-10-01T11:00:01Z",
    });
    const job = await panel.loadJob(testId(1));
    expect(job?.timeline.map(({ from, to, reason }) => [from, to, reason])).toEqual([
      [null, "Scheduled", "created"],
      ["Scheduled", "Enqueued", "due"],
      ["Enqueued", "Processing", "claimed"],
    ]);
    expect(job?.worker).toBe(WORKER);
    expect(job?.maxAttempts).toBeNull();
  });

  it("is null when there is none", async () => {
    expect(await panel.loadJob(testId(9))).toBeNull();
  });
});

describe("figures", () => {
  it("add what is folded and what is not", async () => {
    await insertRow(database, "queue_counts", { queue: "default", scheduled: 3, enqueued: 10, processing: 2 });
    await insertRow(database, "counter_deltas", {
      queue: "default",
      enqueued: -4,
      processing: 1,
      succeeded: 3,
      executions: 3,
      ran_ms: 300,
    });
    await insertRow(database, "minute_statistics", {
      minute: "sql:date_trunc('minute', now()) - interval '5 minutes'",
      queue: "default",
      succeeded: 7,
      failed: 1,
      executions: 9,
      failures: 2,
      ran_ms: 900,
    });
    await insertRow(database, "minute_statistics", {
      minute: "sql:date_trunc('minute', now()) - interval '2 days'",
      queue: "default",
      succeeded: 1000,
    });
    await insertWorker(database, WORKER);
    await insertJob(database, testId(1), { state: "Processing", worker_id: WORKER, started_at: "sql:now()" });
    const figures = await panel.loadStatistics();
    // 2 + 1 are claimed, of which one has started: the others wait.
    expect(figures).toMatchObject({ queued: 8, running: 1, scheduled: 3, workers: 1, slots: 8, deadLetters: 0 });
    expect(figures.lastDay).toEqual({ succeeded: 10, failed: 1, cancelled: 0, executions: 12, meanMs: 100 });
    expect(figures.minutes).toHaveLength(60);
    expect(figures.minutes.at(-6)).toMatchObject({ succeeded: 7, failed: 2 });
    expect(figures.minutes.at(-1)).toMatchObject({ succeeded: 3, failed: 0 });
  });

  it("are zeros on an empty installation", async () => {
    const figures = await panel.loadStatistics();
    expect(figures).toMatchObject({ queued: 0, running: 0, scheduled: 0, workers: 0, slots: 0 });
    expect(figures.lastDay.meanMs).toBeNull();
    expect(await panel.loadRevision()).toBeNull();
    expect((await panel.listWorkers()).items).toEqual([]);
    expect(await panel.listConcerns()).toEqual([]);
    expect(await panel.listJobTypes()).toEqual([]);
  });

  it("stay the same in the pulse until something moves", async () => {
    await insertWorker(database, WORKER);
    const before = await panel.loadPulse();
    expect(await panel.loadPulse()).toEqual(before);
    await insertRow(database, "counter_deltas", { queue: "default", enqueued: 1 });
    const after = await panel.loadPulse();
    expect(after.jobs).not.toBe(before.jobs);
    expect(after.workers).toBe(before.workers);
    await database.query("update turno.workers set draining = true");
    expect((await panel.loadPulse()).workers).not.toBe(after.workers);
    await declareType(database, "file.process");
    expect((await panel.loadPulse()).sync).not.toBe(after.sync);
  });
});

describe("workers, queues and types", () => {
  it("list each worker with what it runs, its duties and its health", async () => {
    await declareType(database, "file.process");
    await insertWorker(database, WORKER);
    const silent = "22222222-2222-4222-8222-222222222222";
    await insertWorker(database, silent, { name: "worker-old", heartbeat_at: "sql:now() - interval '2 minutes'" });
    await insertWorker(database, "33333333-3333-4333-8333-333333333333", { left_at: "sql:now()" });
    await insertRow(database, "duties", {
      duty: "scheduling",
      worker_id: WORKER,
      expires_at: "sql:now() + interval '10 seconds'",
    });
    await insertJob(database, testId(1), {
      state: "Processing",
      worker_id: WORKER,
      started_at: "sql:now() - interval '20 seconds'",
      progress: 62.5,
    });
    const { items } = await panel.listWorkers();
    expect(items.map((worker) => [worker.name, worker.status]).sort()).toEqual([
      ["worker-7f3a", "live"],
      ["worker-old", "silent"],
    ]);
    const live = items.find((worker) => worker.id === WORKER);
    expect(live?.duties).toEqual(["scheduling"]);
    expect(live?.running).toMatchObject([{ id: testId(1), type: "file.process", progress: 62.5, timeoutMs: 600_000 }]);
  });

  it("list queues that are declared, filled or served", async () => {
    await insertRow(database, "queues", { name: "reports", concurrency: 4, suspended: true });
    await insertRow(database, "queue_counts", { queue: "orphan", enqueued: 5 });
    await insertWorker(database, WORKER);
    const { items } = await panel.listQueues();
    expect(items.map((queue) => [queue.name, queue.slots, queue.queued, queue.suspended])).toEqual([
      ["critical", 2, 0, false],
      ["default", 4, 0, false],
      ["orphan", 0, 5, false],
      ["reports", 2, 0, true],
    ]);
  });

  it("list job types with their handler and declaration", async () => {
    await declareType(database, "file.process");
    expect(await panel.listJobTypes()).toMatchObject([
      { name: "file.process", handler: "file/process.ts", policy: "standard", maxAttempts: 5, source: { line: 4 } },
    ]);
  });
});

describe("schedules", () => {
  it("list by name with their next fire, and their newest fires with the states of their jobs", async () => {
    await declareType(database, "file.process");
    const cron = { kind: "cron", expression: "30 2 * * *", timeZone: "America/Sao_Paulo" };
    await declareSchedule(database, {
      name: "nightly",
      job: "file.process",
      timing: cron,
      next: "2026-10-02T05:30:00Z",
    });
    await declareSchedule(database, { name: "weekly", job: "file.process", timing: cron, next: null });
    await insertJob(database, testId(1), { state: "Failed" });
    const fire = (at: string, values: Record<string, unknown>) =>
      insertRow(database, "schedule_fires", { schedule: "nightly", fire_at: at, ...values });
    await fire("2026-09-30T05:30:00Z", { outcome: "overlapped" });
    await fire("2026-10-01T05:30:00Z", { outcome: "fired", job_id: testId(1), late_ms: 40 });
    const first = await panel.listSchedules({ after: null, limit: 1 });
    expect(first.items).toMatchObject([
      { name: "nightly", queue: "default", nextFireAt: new Date("2026-10-02T05:30:00Z"), source: { line: 12 } },
    ]);
    expect(first.next).toBe("nightly");
    const second = await panel.listSchedules({ after: first.next, limit: 1 });
    expect(second).toMatchObject({ items: [{ name: "weekly", nextFireAt: null }], next: null });
    const fires = await panel.listFires({ schedules: ["nightly", "weekly"], each: 24 });
    expect(fires.get("nightly")).toMatchObject([
      { outcome: "fired", state: "Failed", lateByMs: 40 },
      { outcome: "overlapped", state: null },
    ]);
    expect(fires.get("weekly")).toEqual([]);
  });
});

describe("concerns", () => {
  it("name queues without a worker, held jobs, dead letters, missed fires and runs near their time-out", async () => {
    await declareType(database, "file.process");
    await insertRow(database, "queue_counts", { queue: "orphan", enqueued: 5 });
    await insertWorker(database, WORKER, { unloadable_bundles: ["sha256:x"] });
    await insertJob(database, testId(1), { state: "Scheduled", hold: "no-handler", type: "lost.type" });
    await insertJob(database, testId(2), {
      state: "Processing",
      worker_id: WORKER,
      started_at: "sql:now() - interval '9 minutes'",
    });
    await insertRow(database, "dead_letters", {
      job_id: testId(3),
      type: "file.process",
      queue: "default",
      attempts: 5,
      reason: "failed",
      expires_on: "sql:current_date",
    });
    await insertRow(database, "schedule_fires", { schedule: "nightly", fire_at: "sql:now()", outcome: "missed" });
    const concerns = await panel.listConcerns();
    expect(concerns.map((concern) => concern.kind)).toEqual([
      "no-worker",
      "near-timeout",
      "held",
      "unloadable",
      "dead-letters",
      "missed",
    ]);
    const near = concerns.find((concern) => concern.kind === "near-timeout");
    expect(near?.deadline).toBeInstanceOf(Date);
  });

  it("name workers whose leases fail, whose handlers cannot be ended, or whose clock is off", async () => {
    const conditions = [
      { clock_skew_ms: 4_999 },
      { clock_skew_ms: -5_000 },
      { handlers_stuck: 2, handlers_cut_off: 9 },
      { leases_failing: true, clock_skew_ms: 30 },
    ];
    for (const [order, condition] of conditions.entries()) {
      await insertWorker(database, `1111111${order}-1111-4111-8111-111111111111`, { name: `w${order}`, ...condition });
    }
    const well = { leasesFailing: false, handlersStuck: 0, clockSkewMs: null };
    expect(await panel.listConcerns()).toEqual([
      { kind: "worker-ailing", worker: "w1", ...well, clockSkewMs: -5_000 },
      { kind: "worker-ailing", worker: "w2", ...well, handlersStuck: 2 },
      { kind: "worker-ailing", worker: "w3", ...well, leasesFailing: true },
    ]);
  });
});
