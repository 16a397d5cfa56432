import { afterAll, beforeAll, expect, it } from "vitest";
import {
  FIND_FREE_KEYS,
  FIND_STALE_KEYS,
  HAND_OVER_KEYS,
  LOCK_OWNED_KEYS,
  TAKE_FREE_KEYS,
} from "../../runtime/adapters/postgres/concurrency-statements.ts";
import { CLAIM_DELIVERIES, DEFER_DELIVERIES } from "../../runtime/adapters/postgres/delivery-statements.ts";
import {
  CLAIM_JOBS,
  CLAIM_RECOVERED_JOB,
  COUNT_TAKEN,
  FINISH_OTHERWISE,
  FINISH_SUCCEEDED,
  MARK_STARTED,
  RETURN_CLAIMS,
} from "../../runtime/adapters/postgres/execution-statements.ts";
import { CANCEL_JOB } from "../../runtime/adapters/postgres/job-statements.ts";
import { OBSERVE_LEASES, RECOVER_JOBS, RENEW_LEASES } from "../../runtime/adapters/postgres/lease-statements.ts";
import { LIST_ENDED_PAUSES } from "../../runtime/adapters/postgres/pause-statements.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import {
  APPLY_STEPS,
  FIND_REPLACED,
  LOAD_DUE_SCHEDULES,
  LOAD_ON_START,
  NEXT_DUE,
  PROMOTE_DUE,
  RELEASE_OVERLAPS,
  RELEASE_UNHANDLED,
  WAKE_FINISHED,
} from "../../runtime/adapters/postgres/schedule-statements.ts";
import { LOAD_DUE_SLAS } from "../../runtime/adapters/postgres/sla-statements.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";

const JOBS = 30_000;
const SCHEDULES = 10_000;
const WORKER = "00000000-0000-7000-8000-00000000000a";
const FROM_START = ["q1", "-62135596800000000", "00000000-0000-0000-0000-000000000000", 50, WORKER, []];

let testDatabase: TestDatabase;
let database: Database;
let owned: { id: string; dispatch_id: string }[];

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 2,
    statementTimeoutMs: 60_000,
    logger: silentLogger,
  });
  await declareJobType(database, jobDefinition("work"));
  const jobs = (columns: string, values: string, count: number) =>
    database.query(
      `insert into turno.jobs_live (id, type, queue, sort_at, run_at, state${columns})
       select gen_random_uuid(), 'work', 'q' || n % 4, now() - n * interval '1 second', now() + (n - 100) * interval '1 second', ${values}
       from generate_series(1, $1::int) as n`,
      [count],
    );
  await jobs(", dispatch_id", "'Enqueued', nextval('turno.dispatch_seq')", JOBS);
  await jobs("", "'Scheduled'", JOBS);
  await jobs(", hold", "'Scheduled', 'no-handler'", JOBS / 10);
  await jobs(
    ", dispatch_id, worker_id, claimed_at",
    `'Processing', nextval('turno.dispatch_seq'), '${WORKER}', now()`,
    1_000,
  );
  await database.query(
    `insert into turno.recurring_jobs (name, object_id, revision, job_type, spec, timing_hash, next_fire_at)
     select 's' || n, (select min(id) from turno.objects), 1, 'work', '{"runOnStart": false}', 't', now() + (n / 1000 - 1) * interval '1 hour'
     from generate_series(1, $1::int) as n`,
    [SCHEDULES],
  );
  await database.query("analyze turno.jobs_live, turno.recurring_jobs");
  owned = await database.query("select id, dispatch_id from turno.jobs_live where state = 'Processing' limit 100");
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly Plans?: readonly PlanNode[];
  readonly "Plan Rows": number;
}

function isLarge(node: PlanNode | undefined): boolean {
  return node?.["Relation Name"] === "jobs_live" || node?.["Relation Name"] === "recurring_jobs";
}

/** Full scans of large tables, and sorts of many rows. */
async function flaws(statement: string, values: readonly unknown[] = []): Promise<string[]> {
  const [row] = await database.query<{ "QUERY PLAN": [{ Plan: PlanNode }] }>(
    `explain (format json) ${statement}`,
    values,
  );
  const found: string[] = [];
  const look = (node: PlanNode): void => {
    if (node["Node Type"] === "Seq Scan" && isLarge(node)) found.push(`scans all of ${node["Relation Name"]}`);
    if (node["Node Type"] === "Sort" && node["Plan Rows"] > 1_000) found.push(`sorts ${node["Plan Rows"]} rows`);
    // Its groups are as large as the number of schedules that share an instant.
    if (node["Node Type"] === "Incremental Sort" && node.Plans?.[0]?.["Relation Name"] === "recurring_jobs")
      found.push("sorts within groups");
    for (const part of node.Plans ?? []) look(part);
  };
  look((row as { "QUERY PLAN": [{ Plan: PlanNode }] })["QUERY PLAN"][0].Plan);
  return found;
}

it("no statement of a job's way reads more than it takes", async () => {
  const pairs = [WORKER, owned.map(({ id }) => id), owned.map(({ dispatch_id: token }) => token)];
  const each = (value: unknown) => owned.map(() => value);
  const statements: Readonly<Record<string, readonly [string, readonly unknown[]]>> = {
    claim: [CLAIM_JOBS, FROM_START],
    claimRecovered: [CLAIM_RECOVERED_JOB, FROM_START],
    claimDeliveries: [CLAIM_DELIVERIES, pairs],
    deferDeliveries: [DEFER_DELIVERIES, [...pairs.slice(1), each(5)]],
    countTaken: [COUNT_TAKEN, ["q1"]],
    succeed: [FINISH_SUCCEEDED, [...pairs, each("1"), each(null), each(5), each(1), [1], ["b"], [1]]],
    retry: [
      FINISH_OTHERWISE,
      [
        ...pairs,
        ...["Scheduled", "failed", "retry", "failure", 1, null, "e", "s", 5, 1, 1, "b", 1].map((value) => each(value)),
      ],
    ],
    giveBack: [RETURN_CLAIMS, pairs],
    start: [MARK_STARTED, [...pairs, each(5)]],
    renew: [RENEW_LEASES, [...pairs, each(5)]],
    observe: [OBSERVE_LEASES, []],
    recover: [RECOVER_JOBS, [...pairs.slice(1), each(0)]],
    cancel: [CANCEL_JOB, [owned[0]?.id]],
  };
  for (const [name, [statement, values]] of Object.entries(statements))
    expect({ name, flaws: await flaws(statement, values) }).toEqual({ name, flaws: [] });
});

it("no statement of the time reads more than what is due", async () => {
  const due = await database.query<{ name: string; next_fire_at: Date; timing_hash: string }>(LOAD_DUE_SCHEDULES, [50]);
  expect(due).toHaveLength(50);
  const names = due.map(({ name }) => name);
  const instants = due.map(({ next_fire_at: at }) => at);
  const hashes = due.map(({ timing_hash: hash }) => hash);
  const jobs = due.map((_, index) => `00000000-0000-7000-8000-${String(index).padStart(12, "0")}`);
  const statements: Readonly<Record<string, readonly [string, readonly unknown[]]>> = {
    due: [LOAD_DUE_SCHEDULES, [50]],
    apply: [APPLY_STEPS, [names, instants, hashes, instants, names, instants, jobs, [], [], [], [], jobs.map(() => 0)]],
    wake: [WAKE_FINISHED, []],
    onStart: [LOAD_ON_START, []],
    nextDue: [NEXT_DUE, []],
    promote: [PROMOTE_DUE, [50]],
    release: [RELEASE_UNHANDLED, [50]],
    replaced: [FIND_REPLACED, [50]],
    overlaps: [RELEASE_OVERLAPS, [50]],
    expectations: [LOAD_DUE_SLAS, [50]],
    endedPauses: [LIST_ENDED_PAUSES, [50]],
  };
  for (const [name, [statement, values]] of Object.entries(statements))
    expect({ name, flaws: await flaws(statement, values) }).toEqual({ name, flaws: [] });
});

/** Blocks that a statement looks at, with all it does undone. */
async function blocks(statement: string, values: readonly unknown[]): Promise<number> {
  const undone = new Error("undone");
  let found = 0;
  await database
    .transaction(async (query) => {
      const [row] = await query<{ "QUERY PLAN": [{ Plan: Record<string, number> }] }>(
        `explain (analyze, buffers, format json) ${statement}`,
        values,
      );
      const { Plan } = (row as { "QUERY PLAN": [{ Plan: Record<string, number> }] })["QUERY PLAN"][0];
      found = (Plan["Shared Hit Blocks"] ?? 0) + (Plan["Shared Read Blocks"] ?? 0);
      throw undone;
    })
    .catch((error: unknown) => {
      if (error !== undone) throw error;
    });
  return found;
}

const WAITING = 100_000;

it("a hundred thousand jobs that wait for one concurrency key cost the others nothing", async () => {
  const some = owned.slice(0, 50);
  const pairs = [WORKER, some.map(({ id }) => id), some.map(({ dispatch_id: token }) => token)];
  const each = (value: unknown) => some.map(() => value);
  const statements: Readonly<Record<string, readonly [string, readonly unknown[]]>> = {
    claim: [CLAIM_JOBS, FROM_START],
    succeed: [FINISH_SUCCEEDED, [...pairs, each("1"), each(null), each(5), each(1), [1], ["b"], [1]]],
    promote: [PROMOTE_DUE, [50]],
    release: [RELEASE_UNHANDLED, [50]],
    nextDue: [NEXT_DUE, []],
    take: [TAKE_FREE_KEYS, [["another"]]],
    leave: [LOCK_OWNED_KEYS, [["hot"], ["00000000-0000-7000-8000-00000000000b"]]],
    handOver: [HAND_OVER_KEYS, [["hot"]]],
    findFree: [FIND_FREE_KEYS, ["", 2_000]],
    findStale: [FIND_STALE_KEYS, ["", 2_000]],
  };
  const measure = async () => {
    const found: [string, number][] = [];
    for (const [name, [statement, values]] of Object.entries(statements))
      found.push([name, await blocks(statement, values)]);
    return new Map(found);
  };
  const insertWaiting = (from: number, to: number) =>
    database.query(
      `insert into turno.jobs_live (id, type, queue, sort_at, run_at, state, hold, concurrency_key)
       select gen_random_uuid(), 'work', 'q1', now() + n * interval '1 ms', now(), 'Scheduled', 'key', 'hot' from generate_series($1::int, $2::int) as n`,
      [from, to],
    );
  await insertWaiting(1, 10);
  await database.query("insert into turno.concurrency_keys (key, job_id) values ('hot', $1)", [owned[0]?.id]);
  await database.query("vacuum analyze turno.jobs_live, turno.concurrency_keys");
  await measure();
  const before = await measure();
  await insertWaiting(11, WAITING);
  await database.query("vacuum analyze turno.jobs_live, turno.concurrency_keys");
  await measure();
  const after = await measure();
  const dearer = [...after].filter(([name, count]) => count > (before.get(name) ?? 0) * 1.5 + 20);
  expect(dearer).toEqual([]);
  for (const [name, [statement, values]] of Object.entries(statements))
    expect({ name, flaws: await flaws(statement, values) }).toEqual({ name, flaws: [] });
});
