import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { ClaimedJob, NewJob, OnceKey } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf } from "../contract/definitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";
import { holdTransaction, runBehind, untilBlocked } from "./held-transaction.ts";

const worker = ids.workerId();
let testDatabase: TestDatabase;
let database: Database;
let name: string;
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
  name = `n${tests}`;
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

function storeOn(on: Database) {
  return {
    ...createJobStore(on, { ring: () => {} }),
    ...createExecutionStore({ database: on, logger: silentLogger, monotonicMs: () => performance.now() }),
  };
}

function newJob(options: Partial<NewJob> = {}): NewJob {
  const plain = { queue: name, payload: {}, priority: 0, due: null, maxAttempts: null, timeoutMs: null };
  return { id: ids.jobId(), type: "work", ...plain, ...options };
}

const uniqueJob = (): NewJob => newJob({ unique: { key: name, forMs: null, until: "finished" } });

async function insertOnce(on: Database, options: Partial<OnceKey> = {}, job = newJob()) {
  const once = { scope: "", key: name, requestHash: "sha256:one", retainMs: 60_000, ...options };
  return { job, outcome: await storeOn(on).insertJobsOnce([job], once) };
}

async function insertUnique(on: Database) {
  const job = uniqueJob();
  const outcome = await storeOn(on).insertJobs([job]);
  if (!("created" in outcome)) throw new Error("the job was not created");
  return { job, answer: outcome.created[0] };
}

async function countJobs(): Promise<number> {
  return (await database.query("select id from turno.jobs where queue = $1", [name])).length;
}

function behind<First, Second>(first: (held: Database) => Promise<First>, second: () => Promise<Second>) {
  return runBehind({ address: testDatabase.address, database }, first, second);
}

describe("behind a transaction that is about to commit", () => {
  it("the same request waits and gets the first answer", async () => {
    const [first, second] = await behind(
      (held) => insertOnce(held),
      () => insertOnce(database),
    );
    expect(first.outcome).toHaveProperty("created");
    expect(second.outcome).toMatchObject({ replayed: [{ id: first.job.id, state: "Enqueued" }] });
    expect(await countJobs()).toBe(1);
  });

  it("another request with the same key is refused once the first is there", async () => {
    const [, second] = await behind(
      (held) => insertOnce(held),
      () => insertOnce(database, { requestHash: "sha256:two" }),
    );
    expect(second.outcome).toEqual({ refused: "other-request" });
    expect(await countJobs()).toBe(1);
  });

  it("a request whose answer is forgotten is carried out by one of two", async () => {
    await insertOnce(database, { retainMs: -1 });
    const [first, second] = await behind(
      (held) => insertOnce(held),
      () => insertOnce(database),
    );
    expect([Object.keys(first.outcome), Object.keys(second.outcome)]).toEqual([["created"], ["replayed"]]);
    expect(await countJobs()).toBe(2);
  });

  it("a unique job is answered with the one that comes into being meanwhile", async () => {
    const [first, second] = await behind(
      (held) => insertUnique(held),
      () => insertUnique(database),
    );
    expect(second.answer).toEqual({ id: first.job.id, state: "Enqueued", queue: name, duplicate: true });
    expect(await countJobs()).toBe(1);
  });

  it("one of two takes the place of a unique job that has finished", async () => {
    await insertUnique(database);
    const { jobs } = await storeOn(database).claimJobs({
      workerId: worker,
      queue: name,
      limit: 1,
      after: null,
      exceptTypes: [],
    });
    const [claimed] = jobs as [ClaimedJob];
    await storeOn(database).finishJob(worker, finishOf({ ...claimed, jobId: claimed.id }));
    const [first, second] = await behind(
      (held) => insertUnique(held),
      () => insertUnique(database),
    );
    expect(first.answer).toMatchObject({ id: first.job.id });
    expect(second.answer).toMatchObject({ id: first.job.id, duplicate: true });
    expect(await countJobs()).toBe(2);
  });
});

it("a request waits for another with its key, and not for ever", async () => {
  const held = await holdTransaction(testDatabase.address);
  await insertOnce(held.database);
  const waiting = insertOnce(database);
  await untilBlocked(database);
  expect((await waiting).outcome).toEqual({ refused: "in-progress" });
  await held.commit();
  expect((await insertOnce(database)).outcome).toHaveProperty("replayed");
}, 20_000);

it("a request that was rolled back leaves its key to the next", async () => {
  const held = await holdTransaction(testDatabase.address);
  await insertOnce(held.database);
  await insertUnique(held.database);
  await held.database.query("rollback");
  await held.database.query("begin");
  await held.commit();
  expect((await insertOnce(database)).outcome).toHaveProperty("created");
  expect((await insertUnique(database)).answer).not.toHaveProperty("duplicate");
});

it("unique jobs of several keys that cross do not lock with one another for good", async () => {
  const [one, two] = ["a", "b"].map(
    (key) => () => newJob({ unique: { key: `${name}-${key}`, forMs: null, until: null } }),
  );
  if (one === undefined || two === undefined) throw new Error("two kinds are needed");
  const both = async (...jobs: NewJob[]) => storeOn(database).insertJobs(jobs);
  const rounds = Array.from({ length: 8 }, (_, round) => (round % 2 === 0 ? both(one(), two()) : both(two(), one())));
  await Promise.all(rounds);
  expect(await countJobs()).toBe(2);
});
