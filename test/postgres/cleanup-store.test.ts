import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createCleanupStore } from "../../runtime/adapters/postgres/cleanup-store.ts";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createScheduleStore } from "../../runtime/adapters/postgres/schedule-store.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import type { Json } from "../../runtime/core/json.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { ClaimedJob, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf, retryOf } from "../contract/definitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";
import { holdTransaction, untilBlocked } from "./held-transaction.ts";

const noRing = { ring: () => {} };
const { signal } = new AbortController();
const PAST = { parent: "2020-02-03", suffix: "20200203", next: "2020-02-04" };
const PARENTS = ["jobs_final", "job_attempts_final", "job_state_changes_final"] as const;
const LARGE = { text: "x".repeat(4_000) };

let testDatabase: TestDatabase;
let database: Database;
const worker = ids.workerId();

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 4,
    statementTimeoutMs: 20_000,
    logger: silentLogger,
  });
  await declareJobType(database, jobDefinition("work"));
  await createCleanupStore(database).preparePartitions();
});
afterEach(async () => {
  await database.close();
  await testDatabase.drop();
});

function storesOn(on: Database) {
  return {
    ...createJobStore(on, noRing),
    ...createExecutionStore({ database: on, logger: silentLogger, monotonicMs: () => performance.now() }),
    ...createScheduleStore(on, noRing),
    ...createCleanupStore(on),
  };
}

async function claimOne(payload: Json = {}): Promise<Ownership> {
  const job = { type: "work", queue: null, payload, priority: 0, due: null, maxAttempts: null, timeoutMs: null };
  await storesOn(database).insertJobs([{ id: ids.jobId(), ...job }]);
  return claimNext();
}

async function claimNext(): Promise<Ownership & { readonly payload: Json }> {
  const request = { workerId: worker, queue: "default", limit: 1, after: null, exceptTypes: [] };
  const [claimed] = (await storesOn(database).claimJobs(request)).jobs;
  const { id, token, payload } = claimed as ClaimedJob;
  return { jobId: id, token, payload };
}

/** Failed for good, which leaves an attempt and a timeline beside its row. */
async function finished(payload: Json = {}): Promise<JobId> {
  const job = await claimOne(payload);
  await storesOn(database).finishJob(worker, retryOf(job, { next: "Failed", reason: "failed" }));
  return job.jobId;
}

async function count(from: string): Promise<number> {
  const [row] = await database.query<{ count: number }>(`select count(*)::int as count from ${from}`);
  return row?.count ?? 0;
}

/** As if what is finished by now had been so for years, in partitions of its day. */
async function age(): Promise<void> {
  for (const parent of PARENTS) {
    await database.query(
      `create table turno.${parent}_${PAST.suffix} partition of turno.${parent} for values from ('${PAST.parent}') to ('${PAST.next}')`,
    );
    await database.query(`update turno.${parent} set expires_on = '${PAST.parent}'`);
  }
}

/** As if what is finished by now had no partition of its day. */
async function ageUnpartitioned(): Promise<void> {
  for (const parent of PARENTS) await database.query(`update turno.${parent} set expires_on = '2019-01-01'`);
}

describe("retention", () => {
  it("drops a past day with its attempts, its timeline and its payloads, and nothing else", async () => {
    await finished(LARGE);
    await finished();
    await age();
    const kept = await finished(LARGE);
    expect(await storesOn(database).dropExpired(signal)).toBe(3);
    expect(await database.query("select id from turno.jobs")).toEqual([{ id: kept }]);
    expect(await database.query("select job_id from turno.job_payloads")).toEqual([{ job_id: kept }]);
    expect(await count("turno.job_attempts")).toBe(1);
    expect(await storesOn(database).dropExpired(signal)).toBe(0);
  });

  it("deletes all that expired without a partition, in portions", async () => {
    await finished(LARGE);
    await ageUnpartitioned();
    await database.query(
      `insert into turno.jobs_final_rest (id, final, expires_on, type, queue, state, sort_at, run_at)
       select gen_random_uuid(), true, '2019-01-01', 'work', 'default', 'Succeeded', now(), now() from generate_series(1, 12000)`,
    );
    await storesOn(database).dropExpired(signal);
    expect(await count("turno.jobs")).toBe(0);
    for (const table of ["job_payloads", "job_attempts", "job_state_changes"])
      expect(await count(`turno.${table}`)).toBe(0);
  });

  it("holds up no finish while somebody reads everything for long, and drops when that is over", async () => {
    await finished();
    await age();
    const job = await claimOne();
    const reader = await holdTransaction(testDatabase.address);
    for (const table of ["jobs", "job_attempts", "job_state_changes"])
      await reader.database.query(`select count(*) from turno.${table}`);
    const dropping = storesOn(database).dropExpired(signal);
    await untilBlocked(database);
    expect(await storesOn(database).finishJob(worker, finishOf(job))).toBe("landed");
    expect(await dropping).toBe(0);
    await reader.commit();
    expect(await storesOn(database).dropExpired(signal)).toBe(3);
  });

  it("leaves the payload to a job that is requeued at this moment", async () => {
    const id = await finished(LARGE);
    await age();
    const held = await holdTransaction(testDatabase.address);
    expect(await storesOn(held.database).requeueJob(id)).toEqual({ kind: "requeued" });
    const dropping = storesOn(database).dropExpired(signal);
    await untilBlocked(database);
    await held.commit();
    await dropping;
    expect((await claimNext()).payload).toEqual(LARGE);
  });

  it("stops between two portions when it is asked to", async () => {
    await finished();
    await age();
    const stopped = new AbortController();
    stopped.abort();
    expect(await storesOn(database).dropExpired(stopped.signal)).toBe(0);
    expect(await count("turno.jobs")).toBe(1);
  });
});

describe("history", () => {
  /** Finished at its second execution; cancelled, so that nothing has moved the history of the first. */
  async function withHistoryLeftBehind(): Promise<JobId> {
    const job = await claimOne();
    await storesOn(database).finishJob(worker, retryOf(job, { delayMs: 60_000 }));
    await storesOn(database).cancelJob(job.jobId);
    return job.jobId;
  }

  it("that was left behind follows its jobs, however many, and history of no job goes", async () => {
    await withHistoryLeftBehind();
    await database.query(
      `insert into turno.job_attempts_live (job_id, execution, dispatch_id, worker_id, outcome)
       select gen_random_uuid(), 1, 1, gen_random_uuid(), 'failed' from generate_series(1, 2500)`,
    );
    await storesOn(database).dropExpired(signal);
    expect(await count("turno.job_attempts_live")).toBe(0);
    expect(await count("turno.job_state_changes_live")).toBe(0);
    expect(await count("turno.job_attempts")).toBe(1);
    expect(
      await count("turno.jobs j join turno.job_attempts a on a.job_id = j.id and a.expires_on = j.expires_on"),
    ).toBe(1);
  });

  it("comes along whole when a job is requeued while it is being moved", async () => {
    const id = await withHistoryLeftBehind();
    const held = await holdTransaction(testDatabase.address);
    await storesOn(held.database).dropExpired(signal);
    const requeueing = storesOn(database).requeueJob(id);
    await untilBlocked(database);
    await held.commit();
    expect(await requeueing).toEqual({ kind: "requeued" });
    expect(await count("turno.job_attempts_final")).toBe(0);
    expect(await count("turno.job_state_changes_final")).toBe(0);
    expect(await count("turno.job_attempts_live")).toBe(1);
  });

  it("stays where it is when its job is just being requeued", async () => {
    const id = await withHistoryLeftBehind();
    const held = await holdTransaction(testDatabase.address);
    await storesOn(held.database).requeueJob(id);
    await storesOn(database).dropExpired(signal);
    await held.commit();
    expect(await count("turno.job_attempts_final")).toBe(0);
    expect(await count("turno.job_attempts_live")).toBe(1);
  });

  it("of finished jobs follows by itself", async () => {
    const job = await claimOne();
    await storesOn(database).finishJob(worker, retryOf(job, { delayMs: 0 }));
    await storesOn(database).promoteDue(1);
    await storesOn(database).finishJob(worker, finishOf(await claimNext()));
    while ((await count("turno.job_attempts_live")) > 0);
    expect(await count("turno.job_executions where final")).toBe(2);
    expect(await count("turno.job_state_changes_live")).toBe(0);
  });
});

describe("partitions", () => {
  it("are there for every day that a job may expire on which finishes in the coming two days", async () => {
    const definition = jobDefinition("long");
    const retention = { ...definition.retention, failedMs: 400 * 86_400_000 };
    await declareJobType(database, { ...definition, retention });
    await storesOn(database).preparePartitions();
    const missing = await database.query(
      `select day from generate_series(0, 2) as ahead
       cross join unnest(array[7, 30, 400]) as kept
       cross join lateral (select to_char((now() + kept * interval '1 day')::date + 1 + ahead, 'YYYYMMDD') as day) as days
       where to_regclass('turno.jobs_final_' || day) is null or to_regclass('turno.job_attempts_final_' || day) is null
         or to_regclass('turno.job_state_changes_final_' || day) is null`,
    );
    expect(missing).toEqual([]);
  });

  it("are given up for now when rows of their day come meanwhile, or somebody holds the tables", async () => {
    const definition = jobDefinition("long");
    await declareJobType(database, {
      ...definition,
      retention: { ...definition.retention, failedMs: 90 * 86_400_000 },
    });
    const held = await holdTransaction(testDatabase.address);
    await held.database.query(
      `insert into turno.job_attempts_final_rest (job_id, final, expires_on, execution, dispatch_id, worker_id, outcome)
       values (gen_random_uuid(), true, (now() + interval '90 days')::date + 1, 1, 1, gen_random_uuid(), 'failed')`,
    );
    await storesOn(database).preparePartitions();
    await held.commit();
    await storesOn(database).preparePartitions();
    expect(await count("pg_class where relname ~ '_final_[0-9]{8}$' and relname like 'job_attempts%'")).toBe(6 + 2);
  });

  it("can be made by many at once", async () => {
    const definition = jobDefinition("long");
    await declareJobType(database, {
      ...definition,
      retention: { ...definition.retention, failedMs: 90 * 86_400_000 },
    });
    await Promise.all(Array.from({ length: 4 }, () => storesOn(database).preparePartitions()));
    expect(await count("pg_class where relname ~ '_final_[0-9]{8}$' and relname like 'jobs_final%'")).toBe(6 + 3);
  });
});

describe("counters", () => {
  it("are folded whole, however many deltas there are and whoever folds with it", async () => {
    await database.query(
      "insert into turno.counter_deltas (queue, enqueued, succeeded) select 'q' || n % 3, 1, 2 from generate_series(1, 12000) as n",
    );
    await Promise.all([storesOn(database).foldCounters(signal), storesOn(database).foldCounters(signal)]);
    expect(await count("turno.counter_deltas")).toBe(0);
    const [sums] = await database.query(
      "select (select sum(enqueued)::int from turno.queue_counts) as enqueued, (select sum(succeeded)::int from turno.minute_statistics) as succeeded",
    );
    expect(sums).toEqual({ enqueued: 12_000, succeeded: 24_000 });
  });
});
