import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createKeySweep } from "../../runtime/adapters/postgres/concurrency-keys.ts";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { createLeaseStore } from "../../runtime/adapters/postgres/lease-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createScheduleStore } from "../../runtime/adapters/postgres/schedule-store.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { ClaimedJob, NewJob } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf, retryOf } from "../contract/definitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";
import { holdTransaction, runBehind, untilBlocked } from "./held-transaction.ts";

const worker = ids.workerId();
let testDatabase: TestDatabase;
let database: Database;
let key: string;
let tests = 0;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 6,
    statementTimeoutMs: 20_000,
    logger: silentLogger,
  });
  await declareJobType(database, jobDefinition("work"));
});
beforeEach(() => {
  tests += 1;
  key = `key-${tests}`;
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

const rung: string[] = [];
const doorbell = { ring: (topic: { kind: string; queue?: string }) => void rung.push(topic.queue ?? topic.kind) };

function storesOn(on: Database) {
  return {
    ...createJobStore(on, doorbell),
    ...createExecutionStore({ database: on, logger: silentLogger, monotonicMs: () => performance.now(), doorbell }),
    ...createLeaseStore(on, doorbell),
    ...createScheduleStore(on, doorbell),
  };
}
const store = () => storesOn(database);

function newJob(options: Partial<NewJob> = {}): NewJob {
  const plain = { queue: `q${tests}`, payload: {}, priority: 0, due: null, maxAttempts: null, timeoutMs: null };
  return { id: ids.jobId(), type: "work", ...plain, concurrencyKey: key, ...options };
}

async function insert(on: Database = database, options: Partial<NewJob> = {}): Promise<JobId> {
  const job = newJob(options);
  await storesOn(on).insertJobs([job]);
  return job.id;
}

async function claim(on: Database = database): Promise<ClaimedJob & { readonly jobId: JobId }> {
  const request = { workerId: worker, queue: `q${tests}`, limit: 10, after: null, exceptTypes: [] };
  const { jobs } = await storesOn(on).claimJobs(request);
  expect(jobs).toHaveLength(1);
  const [job] = jobs as [ClaimedJob];
  return { ...job, jobId: job.id };
}

async function placeOf(id: JobId): Promise<string | undefined> {
  const [row] = await database.query<{ place: string }>(
    "select concat_ws(' ', state, hold) as place from turno.jobs where id = $1",
    [id],
  );
  return row?.place;
}

/** The job that the table says has the key. */
async function ownerOf(of: string): Promise<JobId | null> {
  const [row] = await database.query<{ job_id: JobId }>("select job_id from turno.concurrency_keys where key = $1", [
    of,
  ]);
  return row?.job_id ?? null;
}

function behind<First, Second>(
  first: (held: Database) => Promise<First>,
  second: () => Promise<Second>,
): Promise<readonly [First, Second]> {
  return runBehind({ address: testDatabase.address, database }, first, second);
}

describe("behind a transaction that is about to commit, a concurrency key", () => {
  it("is had by one of two jobs that come at once", async () => {
    const [first, second] = await behind(
      (held) => insert(held),
      () => insert(),
    );
    expect([await placeOf(first), await placeOf(second)]).toEqual(["Enqueued", "Scheduled key"]);
    expect(await ownerOf(key)).toBe(first);
  });

  it("that is being freed is had by the job that comes meanwhile", async () => {
    await insert();
    const owner = await claim();
    const [outcome, second] = await behind(
      (held) => storesOn(held).finishJob(worker, finishOf(owner)),
      () => insert(),
    );
    expect(outcome).toBe("landed");
    expect(await placeOf(second)).toBe("Enqueued");
    expect(await ownerOf(key)).toBe(second);
  });

  it("goes to a waiter that the finish could not see when it began", async () => {
    await insert();
    const owner = await claim();
    const [waiter, outcome] = await behind(
      (held) => insert(held),
      () => store().finishJob(worker, finishOf(owner)),
    );
    expect(outcome).toBe("landed");
    expect(await placeOf(waiter)).toBe("Enqueued");
  });

  it("goes on by a back-off to a delayed job that becomes due meanwhile", async () => {
    await insert();
    const owner = await claim();
    const delayed = await insert(database, { due: { afterMs: 1 } });
    await behind(
      (held) => storesOn(held).finishJob(worker, retryOf(owner)),
      () => store().promoteDue(10),
    );
    expect(await placeOf(delayed)).toBe("Enqueued");
    expect(await placeOf(owner.id)).toBe("Scheduled");
  });

  it("passes over a waiter that is being cancelled", async () => {
    await insert();
    const owner = await claim();
    const [cancelled, next] = [await insert(), await insert()];
    await behind(
      (held) => storesOn(held).cancelJob(cancelled),
      () => store().finishJob(worker, finishOf(owner)),
    );
    expect([await placeOf(cancelled), await placeOf(next)]).toEqual(["Cancelled", "Enqueued"]);
  });

  it("stays with a job that a second owner's recovery gives back, and is fenced for the first", async () => {
    await insert();
    const owner = await claim();
    const waiter = await insert();
    const [lease] = (await store().observeLeases()).filter(({ jobId }) => jobId === owner.id);
    const [, outcome] = await behind(
      (held) => storesOn(held).recoverJobs([lease as NonNullable<typeof lease>]),
      () => store().finishJob(worker, finishOf(owner)),
    );
    expect(outcome).toBe("fenced");
    expect([await placeOf(owner.id), await placeOf(waiter)]).toEqual(["Enqueued", "Scheduled key"]);
    expect(await ownerOf(key)).toBe(owner.id);
  });

  it("is had by one of many that ask on many connections, one after another, and by each of them once", async () => {
    const jobs = await Promise.all(Array.from({ length: 12 }, () => insert()));
    const run: JobId[] = [];
    while (run.length < jobs.length) {
      const job = await claim();
      run.push(job.id);
      const outcomes = await Promise.all([
        store().finishJob(worker, finishOf(job)),
        store().promoteDue(10),
        insert(database, { due: { afterMs: 3_600_000 } }),
      ]);
      expect(outcomes[0]).toBe("landed");
    }
    expect([...run].sort()).toEqual([...jobs].sort());
    expect(await ownerOf(key)).toBeNull();
  });

  it("two at a time never lock with one another for good", async () => {
    const [one, two] = [`${key}-a`, `${key}-b`];
    const both = (first: string, second: string) =>
      store().insertJobs([newJob({ concurrencyKey: first }), newJob({ concurrencyKey: second })]);
    const held = await holdTransaction(testDatabase.address);
    await storesOn(held.database).insertJobs([newJob({ concurrencyKey: two })]);
    const racing = Promise.all([both(one, two), both(two, one)]);
    await untilBlocked(database, 2);
    await held.commit();
    await racing;
    expect([await ownerOf(one), await ownerOf(two)]).not.toContain(null);
  });
});

describe("a broker's delivery that is put off", () => {
  it("frees the concurrency key of its job", async () => {
    const [deferred, waiter] = [await insert(), await insert()];
    const [row] = await database.query<{ dispatch_id: string }>("select dispatch_id from turno.jobs where id = $1", [
      deferred,
    ]);
    const message = { jobId: deferred, token: BigInt(row?.dispatch_id ?? 0) as ClaimedJob["token"] };
    expect(await store().deferDelivery(message, 5_000)).toBe(true);
    expect([await placeOf(deferred), await placeOf(waiter)]).toEqual(["Scheduled", "Enqueued"]);
  });
});

describe("the doorbell", () => {
  it("tells of a job that got its key by the end of another", async () => {
    await insert();
    const owner = await claim();
    await insert(database, { queue: `other-${key}` });
    rung.length = 0;
    await store().finishJob(worker, finishOf(owner));
    expect(rung).toEqual([`other-${key}`]);
  });
});

describe("the sweep", () => {
  it("frees a key whose job has left without it, and leaves those that are had alone", async () => {
    const [owner, waiter] = [await insert(), await insert()];
    key = `${key}-kept`;
    const kept = await insert();
    await database.query("delete from turno.jobs_live where id = $1", [owner]);
    expect(await createKeySweep(database)()).toEqual([`q${tests}`]);
    expect([await placeOf(waiter), await placeOf(kept)]).toEqual(["Enqueued", "Enqueued"]);
    expect(await ownerOf(key)).toBe(kept);
  });

  it("gives a free key to the first that waits for it", async () => {
    const [owner, waiter, last] = [await insert(), await insert(), await insert()];
    await database.query(
      "with gone as (delete from turno.jobs_live where id = $1) delete from turno.concurrency_keys where key = $2",
      [owner, key],
    );
    await createKeySweep(database)();
    expect([await placeOf(waiter), await placeOf(last)]).toEqual(["Enqueued", "Scheduled key"]);
    expect(await ownerOf(key)).toBe(waiter);
  });

  it("goes through all keys in portions, whatever their number", async () => {
    const jobs = await database.query<{ id: JobId }>(
      `insert into turno.jobs_live (id, type, queue, state, hold, concurrency_key, sort_at, run_at)
       select gen_random_uuid(), 'work', 'swept', 'Scheduled', 'key', 'swept-' || n % 4500, now(), now() from generate_series(1, 9000) as n
       returning id`,
    );
    expect(jobs).toHaveLength(9_000);
    const sweep = createKeySweep(database);
    for (let round = 0; round < 4; round += 1) await sweep();
    const [row] = await database.query<{ runnable: number; keys: number }>(
      `select (select count(*)::int from turno.jobs_live where queue = 'swept' and state = 'Enqueued') as runnable,
         (select count(*)::int from turno.concurrency_keys where key like 'swept-%') as keys`,
    );
    expect(row).toEqual({ runnable: 4_500, keys: 4_500 });
  });

  it("is drawn through by the promoter", async () => {
    const [owner, waiter] = [await insert(), await insert()];
    await database.query("delete from turno.jobs_live where id = $1", [owner]);
    expect(await store().promoteDue(10)).toMatchObject({ queues: [`q${tests}`] });
    expect(await placeOf(waiter)).toBe("Enqueued");
  });
});
