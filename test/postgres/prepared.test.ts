import { afterEach, beforeEach, expect, it } from "vitest";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { ClaimedJob } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf } from "../contract/definitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";
import { startPooler } from "./pooler.ts";

const ROUNDS = 3;
/** Enough that reading all of it would show. */
const CROWD = 20_000;

let testDatabase: TestDatabase;
const opened: Database[] = [];

beforeEach(async () => {
  testDatabase = await createTestDatabase();
});
afterEach(async () => {
  for (const database of opened.splice(0)) await database.close();
  await testDatabase.drop();
});

function open(connectionString = testDatabase.address.connectionString): Database {
  const database = openDatabase({
    address: { connectionString },
    applicationName: "prepared test",
    size: 1,
    preparedSize: 1,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  opened.push(database);
  return database;
}

/** Creates, claims and finishes a job; returns how it ended. */
async function runJob(database: Database): Promise<string> {
  const executions = createExecutionStore({ database, logger: silentLogger, monotonicMs: () => performance.now() });
  const workerId = ids.workerId();
  await createJobStore(database, { ring: () => {} }).insertJobs([
    {
      id: ids.jobId(),
      type: "work",
      queue: null,
      payload: {},
      priority: 0,
      due: null,
      maxAttempts: null,
      timeoutMs: null,
    },
  ]);
  const request = { workerId, queue: "default", limit: 1, after: null, exceptTypes: [] };
  const [claimed] = (await executions.claimJobs(request)).jobs;
  const { id: jobId, token } = claimed as ClaimedJob;
  return executions.finishJob(workerId, finishOf({ jobId, token }));
}

const countPrepared = async (database: Database): Promise<number> => {
  const [row] = await database.prepared<{ count: number }>(
    "select count(*)::int as count from pg_prepared_statements where name like 'turno-%' and statement not like '%pg_prepared_statements%'",
  );
  return row?.count ?? 0;
};

it("a session parses and plans the statements of a job's way once", async () => {
  const database = open();
  await declareJobType(database, jobDefinition("work"));
  for (let round = 0; round < ROUNDS; round++) expect(await runJob(database)).toBe("landed");
  expect(await countPrepared(database)).toBe(3);
});

it("a plan made for an empty queue reads no more than it takes of a full one", async () => {
  const database = open();
  await declareJobType(database, jobDefinition("work"));
  for (let round = 0; round < ROUNDS; round++) expect(await runJob(database)).toBe("landed");
  await database.query(
    `insert into turno.jobs_live (id, type, queue, sort_at, run_at, state, dispatch_id, enqueued_at)
     select gen_random_uuid(), 'work', 'default', now() + n * interval '1 ms', now(), 'Enqueued', nextval('turno.dispatch_seq'), now()
     from generate_series(1, $1::int) as n`,
    [CROWD],
  );
  const touched = async () => {
    const [row] = await database.prepared<{ touched: string }>(
      `select pg_stat_force_next_flush()::text, pg_stat_clear_snapshot()::text,
         (seq_tup_read + idx_tup_fetch)::text as touched
       from pg_stat_user_tables where relid = 'turno.jobs_live'::regclass`,
    );
    return Number(row?.touched);
  };
  await touched();
  const before = await touched();
  for (let round = 0; round < ROUNDS; round++) expect(await runJob(database)).toBe("landed");
  await touched();
  expect((await touched()) - before).toBeLessThan(CROWD / 100);
});

it("behind a pooler the same statements run without a name", async () => {
  const pooler = await startPooler(testDatabase.address.connectionString);
  try {
    const database = open(pooler.connectionString);
    await declareJobType(database, jobDefinition("work"));
    for (let round = 0; round < ROUNDS; round++) expect(await runJob(database)).toBe("landed");
    expect(new Set(pooler.parsed)).toEqual(new Set([""]));
    await opened.pop()?.close();
  } finally {
    await pooler.close();
  }
});

it("where prepared statements get lost, they are sent in full from then on", async () => {
  const database = open();
  await declareJobType(database, jobDefinition("work"));
  expect(await runJob(database)).toBe("landed");
  // What a pooler does that takes any setting and hands the session to another client.
  await database.prepared("deallocate all");
  for (let round = 0; round < ROUNDS; round++) expect(await runJob(database)).toBe("landed");
  expect(await countPrepared(database)).toBe(0);
});
