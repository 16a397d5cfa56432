import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCleanupStore } from "../../runtime/adapters/postgres/cleanup-store.ts";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { createLeaseStore } from "../../runtime/adapters/postgres/lease-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { ClaimedJob, Finish, NewJob } from "../../runtime/protocol/ports/jobs.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";

let testDatabase: TestDatabase;
let database: Database;
const noRing = { ring: () => {} };
const retainMs = { succeeded: 1000, failed: 1000, cancelled: 1000 };

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 4,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  await declareJobType(database, jobDefinition("noop"));
  await createCleanupStore(database).preparePartitions();
});

afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

function stores() {
  return {
    jobs: createJobStore(database, noRing),
    executions: createExecutionStore({ database, logger: silentLogger, monotonicMs: () => performance.now() }),
    leases: createLeaseStore(database, noRing),
    workerId: ids.workerId(),
  };
}

function newJob(queue: string, overrides: Partial<NewJob> = {}): NewJob {
  return {
    id: ids.jobId(),
    type: "noop",
    queue,
    payload: { n: 1 },
    priority: 0,
    due: null,
    maxAttempts: null,
    timeoutMs: null,
    ...overrides,
  };
}

function finish(job: ClaimedJob, overrides: Partial<Finish> = {}): Finish {
  return {
    jobId: job.id,
    token: job.token,
    outcome: "succeeded",
    next: "Succeeded",
    reason: "finished",
    charge: null,
    delayMs: 0,
    hold: null,
    result: '{"ok":true}',
    resultError: null,
    error: null,
    stack: null,
    ranMs: 1,
    retainMs,
    bundleHash: null,
    revision: null,
    ...overrides,
  };
}

async function stateOf(id: JobId): Promise<string | undefined> {
  const [row] = await database.query<{ state: string }>("select state from turno.jobs where id = $1", [id]);
  return row?.state;
}

describe("the hot path on PostgreSQL", () => {
  test("a job that is claimed and finished lies in the final partition with its attempt, and its timeline reads itself from its row", async () => {
    const { jobs, executions, workerId } = stores();
    const job = newJob("q1");
    await jobs.insertJobs([job]);
    const { jobs: claimed } = await executions.claimJobs({
      workerId,
      queue: "q1",
      limit: 10,
      after: null,
      exceptTypes: [],
    });
    expect(claimed.map((one) => one.id)).toEqual([job.id]);
    expect(claimed[0]?.payload).toEqual({ n: 1 });
    expect(await executions.finishJob(workerId, finish(claimed[0] as ClaimedJob))).toBe("landed");
    expect(await stateOf(job.id)).toBe("Succeeded");
    const attempts = await database.query("select * from turno.job_executions where job_id = $1", [job.id]);
    const changes = await database.query<{ to_state: string }>(
      "select to_state from turno.job_timeline where job_id = $1 order by at",
      [job.id],
    );
    expect(attempts).toHaveLength(1);
    expect(changes.map((change) => change.to_state)).toEqual(["Processing", "Succeeded"]);
  });

  test("claims come in queue order and the cursor goes on where the last one ended", async () => {
    const { jobs, executions, workerId } = stores();
    const batch = [newJob("q2"), newJob("q2", { priority: 5 }), newJob("q2")];
    await jobs.insertJobs(batch);
    const first = await executions.claimJobs({ workerId, queue: "q2", limit: 2, after: null, exceptTypes: [] });
    const second = await executions.claimJobs({
      workerId,
      queue: "q2",
      limit: 2,
      after: first.cursor,
      exceptTypes: [],
    });
    expect([...first.jobs, ...second.jobs].map((job) => job.id)).toEqual([batch[1]?.id, batch[0]?.id, batch[2]?.id]);
  });

  test("a finish whose first answer was lost is recognized as landed, and one of another owner is fenced", async () => {
    const { jobs, executions, workerId } = stores();
    const other = ids.workerId();
    await jobs.insertJobs([newJob("q3")]);
    const {
      jobs: [job],
    } = await executions.claimJobs({ workerId, queue: "q3", limit: 1, after: null, exceptTypes: [] });
    expect(await executions.finishJob(other, finish(job as ClaimedJob))).toBe("fenced");
    expect(await executions.finishJob(workerId, finish(job as ClaimedJob))).toBe("landed");
    expect(await executions.finishJob(workerId, finish(job as ClaimedJob))).toBe("landed");
    expect(await executions.finishJob(workerId, finish(job as ClaimedJob, { outcome: "failed", next: "Failed" }))).toBe(
      "fenced",
    );
  });

  test("one result that PostgreSQL refuses spoils neither its batch nor its job", async () => {
    const { jobs, executions, workerId } = stores();
    await jobs.insertJobs([newJob("q4"), newJob("q4"), newJob("q4")]);
    const { jobs: claimed } = await executions.claimJobs({
      workerId,
      queue: "q4",
      limit: 3,
      after: null,
      exceptTypes: [],
    });
    const outcomes = await Promise.all(
      claimed.map((job, index) =>
        executions.finishJob(workerId, finish(job, index === 1 ? { result: '{"t":"a\\u0000b"}' } : {})),
      ),
    );
    expect(outcomes).toEqual(["landed", "landed", "landed"]);
    const rows = await database.query<{ result: unknown; result_error: string | null }>(
      "select result, result_error from turno.jobs where queue = 'q4' order by id",
    );
    expect(rows.map((row) => row.result)).toEqual([{ ok: true }, null, { ok: true }]);
    expect(rows[1]?.result_error).toMatch(/could not be stored/);
  });

  test("a queue with a limit never runs more than that at once, however many claim together", async () => {
    const { jobs, executions } = stores();
    await database.query("insert into turno.queues (name, concurrency) values ('limited', 3)");
    await jobs.insertJobs(Array.from({ length: 20 }, () => newJob("limited")));
    const claims = await Promise.all(
      Array.from({ length: 6 }, () =>
        executions.claimJobs({ workerId: ids.workerId(), queue: "limited", limit: 2, after: null, exceptTypes: [] }),
      ),
    );
    expect(claims.flatMap((claim) => claim.jobs)).toHaveLength(3);
  });

  test("recovery repeats its predicate, mints a new token and fences the old owner", async () => {
    const { jobs, executions, leases, workerId } = stores();
    await jobs.insertJobs([newJob("q5")]);
    const {
      jobs: [job],
    } = await executions.claimJobs({ workerId, queue: "q5", limit: 1, after: null, exceptTypes: [] });
    const [seen] = (await leases.observeLeases()).filter((one) => one.jobId === job?.id);
    const pair = { jobId: (job as ClaimedJob).id, token: (job as ClaimedJob).token, runningMs: null };
    expect((await leases.renewLeases(workerId, [pair])).renewed).toHaveLength(1);
    expect(await leases.recoverJobs([seen as NonNullable<typeof seen>])).toEqual([]);
    const [now] = (await leases.observeLeases()).filter((one) => one.jobId === job?.id);
    const [lost] = await leases.recoverJobs([now as NonNullable<typeof now>]);
    expect(lost).toMatchObject({ jobId: job?.id, workerId, next: "Enqueued" });
    expect((await leases.renewLeases(workerId, [pair])).lost).toHaveLength(1);
    expect(await executions.finishJob(workerId, finish(job as ClaimedJob))).toBe("fenced");
    const again = await executions.claimRecovered({ workerId, queue: "q5", exceptTypes: [] });
    expect(again?.lostUnstarted).toBe(1);
    expect((again as ClaimedJob).token > (job as ClaimedJob).token).toBe(true);
  });

  test("a cancel request turns a retry into Cancelled and lets a success stand", async () => {
    const { jobs, executions, workerId } = stores();
    await jobs.insertJobs([newJob("q6"), newJob("q6")]);
    const {
      jobs: [one, two],
    } = await executions.claimJobs({ workerId, queue: "q6", limit: 2, after: null, exceptTypes: [] });
    expect(await jobs.cancelJob((one as ClaimedJob).id)).toEqual({ kind: "requested" });
    expect(await jobs.cancelJob((two as ClaimedJob).id)).toEqual({ kind: "requested" });
    const retry = {
      outcome: "failed",
      next: "Scheduled",
      reason: "retry",
      charge: "failure",
      delayMs: 1000,
      error: "no",
      result: null,
    } as const;
    expect(await executions.finishJob(workerId, finish(one as ClaimedJob, retry))).toBe("cancelled");
    expect(await executions.finishJob(workerId, finish(two as ClaimedJob))).toBe("landed");
    expect([await stateOf((one as ClaimedJob).id), await stateOf((two as ClaimedJob).id)]).toEqual([
      "Cancelled",
      "Succeeded",
    ]);
  });

  test("counters add up to what lies in the tables", async () => {
    await createCleanupStore(database).foldCounters(new AbortController().signal);
    const counted = await database.query<{ queue: string }>(
      "select queue, enqueued::int, processing::int, scheduled::int from turno.queue_counts order by queue",
    );
    const real = await database.query<{ queue: string }>(
      "select queue, count(*) filter (where state = 'Enqueued')::int as enqueued, count(*) filter (where state = 'Processing')::int as processing, count(*) filter (where state = 'Scheduled')::int as scheduled from turno.jobs group by queue order by queue",
    );
    expect(counted).toEqual(real);
  });
});
