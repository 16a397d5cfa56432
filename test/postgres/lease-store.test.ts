import { afterAll, beforeAll, expect, it } from "vitest";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { createLeaseStore } from "../../runtime/adapters/postgres/lease-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createScheduleStore } from "../../runtime/adapters/postgres/schedule-store.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { ClaimedJob, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import { retryOf } from "../contract/definitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";

const noRing = { ring: () => {} };
const worker = ids.workerId();
let testDatabase: TestDatabase;
let database: Database;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 2,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  await declareJobType(database, jobDefinition("work"));
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

function stores() {
  return {
    ...createJobStore(database, noRing),
    ...createExecutionStore({ database, logger: silentLogger, monotonicMs: () => performance.now() }),
    ...createLeaseStore(database, noRing),
    ...createScheduleStore(database, noRing),
  };
}

async function claim(): Promise<Ownership> {
  const request = { workerId: worker, queue: "default", limit: 1, after: null, exceptTypes: [] };
  const [job] = (await stores().claimJobs(request)).jobs;
  return { jobId: (job as ClaimedJob).id, token: (job as ClaimedJob).token };
}

async function claimOne(): Promise<Ownership> {
  const job = { type: "work", queue: null, payload: {}, priority: 0, due: null, maxAttempts: null, timeoutMs: null };
  await stores().insertJobs([{ id: ids.jobId(), ...job }]);
  return claim();
}

async function recover({ jobId }: Ownership): Promise<void> {
  const seen = (await stores().observeLeases()).filter((lease) => lease.jobId === jobId);
  expect(await stores().recoverJobs(seen)).toHaveLength(1);
}

it("a recovered job's timeline keeps how it came into its queue", async () => {
  const first = await claimOne();
  await stores().finishJob(worker, retryOf(first, { delayMs: 0 }));
  await stores().promoteDue(10);
  await recover(await claim());
  const changes = await database.query<{ change: string }>(
    "select to_state || ', ' || reason as change from turno.job_timeline where job_id = $1 order by at",
    [first.jobId],
  );
  expect(changes.map(({ change }) => change)).toEqual([
    "Processing, claimed",
    "Scheduled, retry",
    "Enqueued, due",
    "Processing, claimed",
    "Enqueued, worker lost",
  ]);
});

it("a loss is recorded with the code that ran, or with none when a later revision has changed it", async () => {
  const [before, after] = [await claimOne(), await claimOne()];
  const recorded = async ({ jobId }: Ownership) =>
    (await database.query("select revision, bundle_hash from turno.job_attempts where job_id = $1", [jobId]))[0];
  await recover(before);
  expect(await recorded(before)).toEqual({ revision: "1", bundle_hash: "sha256:work" });
  await database.query("update turno.revisions set applied_at = now() + interval '1 minute'");
  await recover(after);
  expect(await recorded(after)).toEqual({ revision: null, bundle_hash: null });
});

it("a job that is cancelled by the loss of its worker counts that loss as what it was", async () => {
  const job = await claimOne();
  await stores().cancelJob(job.jobId);
  await recover(job);
  expect(await database.query("select state, lost, lost_unstarted from turno.jobs where id = $1", [job.jobId])).toEqual(
    [{ state: "Cancelled", lost: 0, lost_unstarted: 1 }],
  );
});
