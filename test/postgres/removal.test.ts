import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createRevisionStore } from "../../runtime/adapters/postgres/revision-store.ts";
import type { DeclaredObject } from "../../runtime/config/objects.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { NO_PROVENANCE, type RevisionStore } from "../../runtime/protocol/ports/revisions.ts";
import { applyDesired } from "../../runtime/reconcile/apply.ts";
import { desire, job, schedule } from "../reconcile/desired-fixture.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { insertJob, insertRow, insertWorker, testId } from "../web/seed.ts";

const WORKER = "11111111-1111-4111-8111-111111111111";
const [QUEUED, LATER, RUNNING, OTHER, WAITER] = [testId(1), testId(2), testId(3), testId(4), testId(5)];

let test: TestDatabase;
let database: Database;
let store: RevisionStore;

beforeEach(async () => {
  test = await createTestDatabase();
  database = openDatabase({
    address: test.address,
    applicationName: "test",
    size: 4,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  store = createRevisionStore(database);
});
afterEach(async () => {
  await database.close();
  await test.drop();
});

async function apply(objects: readonly DeclaredObject[]): Promise<void> {
  await applyDesired(store, {
    desired: desire(objects),
    source: { name: "local", origin: "/srv/ops" },
    provenance: NO_PROVENANCE,
    appliedBy: "test",
    base: (await store.revisionInForce())?.number ?? null,
    confirmDeletes: false,
    takeOver: false,
  });
}

/** A queued, a later and a running job of `type`, and a queued one of `b`. */
async function seedJobs(values: { readonly type: string; readonly schedule?: string }): Promise<void> {
  await insertWorker(database, WORKER);
  await insertJob(database, QUEUED, values);
  await insertJob(database, LATER, { ...values, state: "Scheduled" });
  await insertJob(database, RUNNING, {
    ...values,
    state: "Processing",
    worker_id: WORKER,
    execution: 1,
    claimed_at: "sql:now()",
  });
  await insertJob(database, OTHER, { type: "b" });
}

async function states(): Promise<Readonly<Record<string, string>>> {
  const rows = await database.query<{ id: string; state: string }>("select id, state from turno.jobs order by id");
  return Object.fromEntries(rows.map(({ id, state }) => [id, state]));
}

describe("removing a job type", () => {
  it("with onRemove: cancel cancels its waiting jobs and leaves running ones and those of others", async () => {
    await apply([job("a", { onRemove: "cancel" }), job("b")]);
    await seedJobs({ type: "a" });
    await apply([job("b")]);
    expect(await states()).toEqual({
      [QUEUED]: "Cancelled",
      [LATER]: "Cancelled",
      [RUNNING]: "Processing",
      [OTHER]: "Enqueued",
    });
  });

  it("without it cancels nothing", async () => {
    await apply([job("a"), job("b")]);
    await seedJobs({ type: "a" });
    await apply([job("b")]);
    expect(Object.values(await states())).not.toContain("Cancelled");
  });

  it("counts what it cancels, and its timeline says why", async () => {
    await apply([job("a", { onRemove: "cancel" }), job("b")]);
    await seedJobs({ type: "a" });
    await database.query("delete from turno.counter_deltas");
    await apply([job("b")]);
    expect(
      await database.query(
        `select sum(scheduled)::integer as scheduled, sum(enqueued)::integer as enqueued, sum(cancelled)::integer as cancelled
         from turno.counter_deltas where queue = 'default'`,
      ),
    ).toEqual([{ scheduled: -1, enqueued: -1, cancelled: 2 }]);
    expect(
      await database.query("select from_state, to_state, reason from turno.job_state_changes where job_id = $1", [
        QUEUED,
      ]),
    ).toEqual([{ from_state: "Enqueued", to_state: "Cancelled", reason: "removed" }]);
  });

  it("hands the concurrency key of a cancelled job to the next one that waits for it", async () => {
    await apply([job("a", { onRemove: "cancel" }), job("b")]);
    await insertJob(database, QUEUED, { type: "a", concurrency_key: "one" });
    await insertRow(database, "concurrency_keys", { key: "one", job_id: QUEUED });
    await insertJob(database, LATER, { type: "a", state: "Scheduled", hold: "key", concurrency_key: "one" });
    await insertJob(database, WAITER, { type: "b", state: "Scheduled", hold: "key", concurrency_key: "one" });
    await apply([job("b")]);
    expect(await states()).toEqual({ [QUEUED]: "Cancelled", [LATER]: "Cancelled", [WAITER]: "Enqueued" });
    expect(await database.query("select key, job_id from turno.concurrency_keys")).toEqual([
      { key: "one", job_id: WAITER },
    ]);
  });

  it("frees a key that nobody else waits for", async () => {
    await apply([job("a", { onRemove: "cancel" }), job("b")]);
    await insertJob(database, QUEUED, { type: "a", concurrency_key: "one" });
    await insertRow(database, "concurrency_keys", { key: "one", job_id: QUEUED });
    await apply([job("b")]);
    expect(await database.query("select key from turno.concurrency_keys")).toEqual([]);
  });
});

describe("removing a schedule", () => {
  it("with onRemove: cancel cancels the waiting jobs that it made, and no other job of their type", async () => {
    const jobs = [job("a"), job("b")];
    await apply([...jobs, schedule("s", { onRemove: "cancel" })]);
    await seedJobs({ type: "a", schedule: "s" });
    await insertJob(database, WAITER, { type: "a" });
    await apply(jobs);
    expect(await states()).toEqual({
      [QUEUED]: "Cancelled",
      [LATER]: "Cancelled",
      [RUNNING]: "Processing",
      [OTHER]: "Enqueued",
      [WAITER]: "Enqueued",
    });
  });

  it("under its new name cancels nothing", async () => {
    const jobs = [job("a"), job("b")];
    await apply([...jobs, schedule("s", { onRemove: "cancel" })]);
    await seedJobs({ type: "a", schedule: "s" });
    await apply([...jobs, schedule("t", { onRemove: "cancel", previousNames: ["s"] })]);
    expect(Object.values(await states())).not.toContain("Cancelled");
  });

  it("goes by what was in force: files that remove it can't ask for it any more", async () => {
    const jobs = [job("a"), job("b")];
    await apply([...jobs, schedule("s", { onRemove: "cancel" })]);
    await apply([...jobs, schedule("s")]);
    await seedJobs({ type: "a", schedule: "s" });
    await apply(jobs);
    expect(Object.values(await states())).not.toContain("Cancelled");
  });
});

it("counts the jobs that a removal would cancel, up to a limit", async () => {
  await apply([job("a"), job("b"), schedule("s")]);
  await seedJobs({ type: "a", schedule: "s" });
  const names = { jobTypes: ["a", "b", "c"], schedules: ["s"] };
  expect(await store.countWaitingJobs(names, 10)).toEqual(
    new Map([
      ["Job/a", 2],
      ["Job/b", 1],
      ["Schedule/s", 2],
    ]),
  );
  expect(await store.countWaitingJobs(names, 1)).toEqual(
    new Map([
      ["Job/a", 1],
      ["Job/b", 1],
      ["Schedule/s", 1],
    ]),
  );
  expect(await store.countWaitingJobs({ jobTypes: [], schedules: [] }, 10)).toEqual(new Map());
});
