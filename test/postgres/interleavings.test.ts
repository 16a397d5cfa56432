import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { createLeaseStore } from "../../runtime/adapters/postgres/lease-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createScheduleStore } from "../../runtime/adapters/postgres/schedule-store.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { ScheduleSpec } from "../../runtime/config/objects.ts";
import type { JobId, WorkerId } from "../../runtime/core/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { ClaimedJob, NewJob, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import type { ScheduleStep } from "../../runtime/protocol/ports/schedules.ts";
import { finishOf, retryOf, scheduleSpec } from "../contract/definitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, declareSchedule, jobDefinition } from "../support/declare.ts";
import { holdTransaction, runBehind } from "./held-transaction.ts";

const noRing = { ring: () => {} };

let testDatabase: TestDatabase;
let database: Database;
let queue = 0;
let worker: WorkerId;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 4,
    statementTimeoutMs: 20_000,
    logger: silentLogger,
  });
  await declareJobType(database, jobDefinition("work"));
});
beforeEach(() => {
  queue += 1;
  worker = ids.workerId();
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

function storesOn(on: Database) {
  return {
    ...createJobStore(on, noRing),
    ...createExecutionStore({ database: on, logger: silentLogger, monotonicMs: () => performance.now() }),
    ...createLeaseStore(on, noRing),
    ...createScheduleStore(on, noRing),
  };
}

function newJob(): NewJob {
  const name = `q${queue}`;
  return {
    id: ids.jobId(),
    type: "work",
    queue: name,
    payload: {},
    priority: 0,
    due: null,
    maxAttempts: null,
    timeoutMs: null,
  };
}

async function insert(count = 1): Promise<JobId[]> {
  const jobs = Array.from({ length: count }, newJob);
  await storesOn(database).insertJobs(jobs);
  return jobs.map((job) => job.id);
}

function claim(on: Database, limit = 10): Promise<readonly ClaimedJob[]> {
  const request = { workerId: worker, queue: `q${queue}`, limit, after: null, exceptTypes: [] };
  return storesOn(on)
    .claimJobs(request)
    .then(({ jobs }) => jobs);
}

async function claimed(): Promise<Ownership> {
  await insert();
  const [job] = await claim(database, 1);
  return { jobId: (job as ClaimedJob).id, token: (job as ClaimedJob).token };
}

async function stateOf(id: JobId): Promise<string | undefined> {
  const rows = await database.query<{ state: string }>("select state from turno.jobs where id = $1", [id]);
  expect(rows.length).toBeLessThan(2);
  return rows[0]?.state;
}

async function timelineOf(id: JobId): Promise<string[]> {
  const rows = await database.query<{ move: string }>(
    "select concat(from_state, ' → ', to_state) as move from turno.job_timeline where job_id = $1 order by at",
    [id],
  );
  return rows.map(({ move }) => move);
}

async function seen({ jobId }: Ownership) {
  const found = (await storesOn(database).observeLeases()).find((lease) => lease.jobId === jobId);
  if (found === undefined) throw new Error("the job is not running");
  return found;
}

async function declare(name: string, spec: Partial<ScheduleSpec> = {}): Promise<Date> {
  const nextFireAt = new Date();
  await declareSchedule(database, { name, nextFireAt, spec: scheduleSpec({ job: "work", ...spec }) });
  return nextFireAt;
}

function step(name: string, at: Date): ScheduleStep {
  return {
    name,
    expected: { nextFireAt: at, timingHash: "timing" },
    fires: [{ at, jobId: ids.jobId() }],
    skips: [],
    olderSkips: 0,
    nextFireAt: new Date(at.getTime() + 60_000),
  };
}

async function runsOf(schedule: string): Promise<number> {
  return (await database.query("select id from turno.jobs where schedule = $1", [schedule])).length;
}

function behind<First, Second>(
  first: (held: Database) => Promise<First>,
  second: () => Promise<Second>,
): Promise<readonly [First, Second]> {
  return runBehind({ address: testDatabase.address, database }, first, second);
}

describe("behind a transaction that is about to commit", () => {
  const store = () => storesOn(database);

  it("a cancel answers with how the job ended", async () => {
    const job = await claimed();
    const [finish, cancel] = await behind(
      (held) => storesOn(held).finishJob(worker, finishOf(job)),
      () => store().cancelJob(job.jobId),
    );
    expect(finish).toBe("landed");
    expect(cancel).toEqual({ kind: "finished", state: "Succeeded" });
  });

  it("a cancel of a job that is being claimed is a request", async () => {
    const [id] = await insert();
    const [jobs, cancel] = await behind(
      (held) => claim(held),
      () => store().cancelJob(id as JobId),
    );
    expect(jobs).toHaveLength(1);
    expect(cancel).toEqual({ kind: "requested" });
    const [job] = jobs;
    const pair = { jobId: (job as ClaimedJob).id, token: (job as ClaimedJob).token, runningMs: null };
    expect((await store().renewLeases(worker, [pair])).renewed).toMatchObject([{ cancelRequested: true }]);
  });

  it("a cancel of a job that goes back to wait ends it", async () => {
    const job = await claimed();
    const [, cancel] = await behind(
      (held) => storesOn(held).finishJob(worker, retryOf(job)),
      () => store().cancelJob(job.jobId),
    );
    expect(cancel).toEqual({ kind: "cancelled" });
    expect(await stateOf(job.jobId)).toBe("Cancelled");
  });

  it("a timeline goes forward and has no gap, whatever waited for what and however often a claim went back", async () => {
    const job = await claimed();
    await store().returnClaims(worker, [job]);
    await store().promoteDue(10);
    const [again] = await claim(database, 1);
    const retry = retryOf({ jobId: (again as ClaimedJob).id, token: (again as ClaimedJob).token }, { delayMs: 0 });
    await behind(
      (held) => storesOn(held).finishJob(worker, retry),
      () => store().cancelJob(job.jobId),
    );
    await store().requeueJob(job.jobId);
    await store().cancelJob(job.jobId);
    expect(await timelineOf(job.jobId)).toEqual([
      "Enqueued → Processing",
      "Processing → Scheduled",
      "Scheduled → Cancelled",
      "Cancelled → Enqueued",
      "Enqueued → Cancelled",
    ]);
    const [row] = await database.query("select enqueued_why from turno.jobs where id = $1", [job.jobId]);
    expect(row).toEqual({ enqueued_why: "requeued" });
  });

  it("a claim passes over a job that is being cancelled", async () => {
    const [id] = await insert();
    const [, jobs] = await behind(
      (held) => storesOn(held).cancelJob(id as JobId),
      () => claim(database),
    );
    expect(jobs).toEqual([]);
    expect(await stateOf(id as JobId)).toBe("Cancelled");
  });

  it("a claim gives way soon where another stands still in its turn at a limited queue", async () => {
    await database.query("insert into turno.queues (name, concurrency) values ($1, 5)", [`q${queue}`]);
    await insert(2);
    const held = await holdTransaction(testDatabase.address);
    expect(await claim(held.database, 1)).toHaveLength(1);
    expect(await claim(database)).toEqual([]);
    await held.commit();
    expect(await claim(database)).toHaveLength(1);
  });

  it("a claim passes over what another claims", async () => {
    await insert(2);
    const [first, second] = await behind(
      (held) => claim(held, 1),
      () => claim(database, 5),
    );
    expect(new Set([...first, ...second].map((job) => job.id)).size).toBe(2);
    expect(second).toHaveLength(1);
  });

  it("a claim does not wait for what another claims", async () => {
    await insert(2);
    const held = await holdTransaction(testDatabase.address);
    expect(await claim(held.database, 1)).toHaveLength(1);
    expect(await claim(database, 5)).toHaveLength(1);
    await held.commit();
  });

  it("a finish that lost to a recovery is fenced, and the job has a new token", async () => {
    const job = await claimed();
    const lease = await seen(job);
    const [lost, finish] = await behind(
      (held) => storesOn(held).recoverJobs([lease]),
      () => store().finishJob(worker, finishOf(job)),
    );
    expect(lost).toHaveLength(1);
    expect(finish).toBe("fenced");
    expect(await stateOf(job.jobId)).toBe("Enqueued");
  });

  it("a recovery of a job that finishes takes nothing", async () => {
    const job = await claimed();
    const lease = await seen(job);
    const [, lost] = await behind(
      (held) => storesOn(held).finishJob(worker, finishOf(job)),
      () => store().recoverJobs([lease]),
    );
    expect(lost).toEqual([]);
    expect(await stateOf(job.jobId)).toBe("Succeeded");
  });

  it("starts, progress, renewals and recoveries do not wait, so that none can lock with a finish", async () => {
    const job = await claimed();
    const lease = await seen(job);
    const held = await holdTransaction(testDatabase.address);
    expect(await storesOn(held.database).finishJob(worker, retryOf(job))).toBe("landed");
    await store().markStarted(worker, [{ ...job, runningMs: 5 }]);
    await store().reportProgress(worker, [{ ...job, percent: 50, message: "half" }]);
    expect((await store().renewLeases(worker, [{ ...job, runningMs: 5 }])).skipped).toEqual([job]);
    expect(await store().recoverJobs([lease])).toEqual([]);
    await held.commit();
    expect(await stateOf(job.jobId)).toBe("Scheduled");
  });

  it("a recovery of a job that is renewed takes nothing", async () => {
    const job = await claimed();
    const lease = await seen(job);
    const [, lost] = await behind(
      (held) => storesOn(held).renewLeases(worker, [{ ...job, runningMs: null }]),
      () => store().recoverJobs([lease]),
    );
    expect(lost).toEqual([]);
    expect(await stateOf(job.jobId)).toBe("Processing");
  });

  it("a renewal of what is being recovered is skipped, then lost", async () => {
    const job = await claimed();
    const lease = await seen(job);
    const renew = () => store().renewLeases(worker, [{ ...job, runningMs: null }]);
    const [, renewal] = await behind((held) => storesOn(held).recoverJobs([lease]), renew);
    expect(renewal.renewed).toEqual([]);
    expect((await renew()).lost).toEqual([job]);
  });

  it("a failure obeys a cancel request that it did not see", async () => {
    const job = await claimed();
    const [cancel, finish] = await behind(
      (held) => storesOn(held).cancelJob(job.jobId),
      () => store().finishJob(worker, retryOf(job)),
    );
    expect(cancel).toEqual({ kind: "requested" });
    expect(finish).toBe("cancelled");
    expect(await stateOf(job.jobId)).toBe("Cancelled");
  });

  it("a claim that is given back obeys a cancel request that it did not see", async () => {
    const job = await claimed();
    await behind(
      (held) => storesOn(held).cancelJob(job.jobId),
      () => store().returnClaims(worker, [job]),
    );
    expect(await stateOf(job.jobId)).toBe("Cancelled");
  });

  it("a finish of what was given back is fenced, and the other way round", async () => {
    const [first, second] = [await claimed(), await claimed()];
    const [, finish] = await behind(
      (held) => storesOn(held).returnClaims(worker, [first]),
      () => store().finishJob(worker, finishOf(first)),
    );
    expect(finish).toBe("fenced");
    await behind(
      (held) => storesOn(held).finishJob(worker, finishOf(second)),
      () => store().returnClaims(worker, [second]),
    );
    expect(await stateOf(second.jobId)).toBe("Succeeded");
  });

  it("a second requeue is refused: the job is in its queue again", async () => {
    const job = await claimed();
    await store().finishJob(worker, finishOf(job));
    const [one, two] = await behind(
      (held) => storesOn(held).requeueJob(job.jobId),
      () => store().requeueJob(job.jobId),
    );
    expect(one).toEqual({ kind: "requeued" });
    expect(two).toEqual({ kind: "refused", state: "Enqueued" });
  });

  it("a delete of a job that is requeued is refused, and a requeue of one that is deleted finds nothing", async () => {
    const [kept, gone] = [await claimed(), await claimed()];
    for (const job of [kept, gone]) await store().finishJob(worker, finishOf(job));
    const [, refused] = await behind(
      (held) => storesOn(held).requeueJob(kept.jobId),
      () => store().deleteJob(kept.jobId),
    );
    expect(refused).toEqual({ kind: "refused", state: "Enqueued" });
    const [, missing] = await behind(
      (held) => storesOn(held).deleteJob(gone.jobId),
      () => store().requeueJob(gone.jobId),
    );
    expect(missing).toEqual({ kind: "not-found" });
    expect(await stateOf(gone.jobId)).toBeUndefined();
  });

  it("an instant is fired by one scheduler only", async () => {
    const at = await declare("raced");
    const [one, two] = await behind(
      (held) => storesOn(held).applySteps([step("raced", at)]),
      () => store().applySteps([step("raced", at)]),
    );
    expect([one, two].map(([outcome]) => outcome?.kind)).toEqual(["applied", "stale"]);
    expect(await runsOf("raced")).toBe(1);
  });

  it("a fire of an edited schedule does not land", async () => {
    const at = await declare("edited");
    const [, [outcome]] = await behind(
      (held) => held.query("update turno.recurring_jobs set timing_hash = 'other' where name = 'edited'"),
      () => store().applySteps([step("edited", at)]),
    );
    expect(outcome?.kind).toBe("stale");
    expect(await runsOf("edited")).toBe(0);
  });

  it("waking schedules whose run has ended does not wait for an apply", async () => {
    await declare("paced", { timing: { kind: "every", intervalMs: 60_000, from: "finish" } });
    await database.query(
      "update turno.recurring_jobs set awaits_finish = true, next_fire_at = null where name = 'paced'",
    );
    const held = await holdTransaction(testDatabase.address);
    await held.database.query("select from turno.recurring_jobs for update");
    expect(await store().wakeFinishedSchedules()).toBe(0);
    await held.commit();
    expect(await store().wakeFinishedSchedules()).toBe(1);
  });

  it("a fire under Forbid does not miss a run that was just made", async () => {
    await database.query("update turno.installation set cold_starts = 1");
    const at = await declare("both", { runOnStart: true });
    const [started, [outcome]] = await behind(
      (held) => storesOn(held).fireOnStart(ids.jobId),
      () => store().applySteps([step("both", at)]),
    );
    expect(started).toBe(1);
    expect(outcome?.kind).toBe("stale");
    expect(await store().applySteps([step("both", at)])).toMatchObject([{ kind: "applied", fired: 0 }]);
    expect(await runsOf("both")).toBe(1);
  });

  it("a fire on start under Forbid does not miss a run that was just made", async () => {
    await database.query("update turno.installation set cold_starts = 2");
    const at = await declare("both-again", { runOnStart: true });
    await behind(
      (held) => storesOn(held).applySteps([step("both-again", at)]),
      () => store().fireOnStart(ids.jobId),
    );
    await store().fireOnStart(ids.jobId);
    expect(await runsOf("both-again")).toBe(1);
  });
});
