import { expect, it } from "vitest";
import { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import { connect } from "../../runtime/adapters/memory/faulty-store.ts";
import { countingIds } from "../../runtime/adapters/memory/seeded.ts";
import { createMemoryStore } from "../../runtime/adapters/memory/store.ts";
import type { JobDefinition } from "../../runtime/config/objects.ts";
import type { JobRequest } from "../../runtime/protocol/ports/intake.ts";
import { createJobIntake, IDEMPOTENCY_RETENTION_MS } from "../../runtime/services/intake.ts";
import { jobDefinition } from "../contract/definitions.ts";
import { declareJob } from "./memory-view.ts";

/** As it stands in YAML. */
const expression = (text: string): string => `$\u007b{ ${text} }}`;

function scene(definition: Partial<JobDefinition> = {}) {
  let nowMs = 1_000_000;
  const database = new MemoryDatabase(() => nowMs);
  declareJob(database, jobDefinition({ type: "work", ...definition }));
  const connection = connect(createMemoryStore(database));
  const intake = createJobIntake({ store: connection.store, ids: countingIds(), validatePayload: () => [] });
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  return { database, connection, intake, pass };
}

function request(options: Partial<JobRequest> = {}): JobRequest {
  return {
    type: "work",
    queue: null,
    payload: { customer: 7 },
    priority: 0,
    due: null,
    maxAttempts: null,
    timeoutMs: null,
    ...options,
  };
}
const ONCE = { scope: "", key: "k" };

it("a job has the concurrency key that its type and its payload give, or its own", async () => {
  const { database, intake } = scene({ concurrencyKey: `customer-${expression("payload.customer")}` });
  await intake.submit([request(), request({ concurrencyKey: "mine" })]);
  expect([...database.jobs.values()].map((job) => job.concurrencyKey)).toEqual(["customer-7", "mine"]);
});

it("a payload that gives no key is refused with its place in the request", async () => {
  const { database, intake } = scene({ concurrencyKey: `customer-${expression("payload.customer")}` });
  const outcome = await intake.submit([request(), request({ payload: {} })]);
  expect(outcome).toMatchObject({ kind: "refused", problems: [{ request: 1, pointer: "/payload" }] });
  expect(database.jobs.size).toBe(0);
});

it("a duplicate of a unique job is answered with the job that is there", async () => {
  const unique = { key: expression("payload.customer"), forMs: 60_000, until: "finished" } as const;
  const { database, intake } = scene({ unique });
  const first = await intake.submit([request()]);
  const second = await intake.submit([request({ payload: { customer: 7, other: true } })]);
  expect(second).toMatchObject({ kind: "created", jobs: [{ duplicate: true }] });
  expect(second.kind === "created" && second.jobs[0]?.id).toBe(first.kind === "created" && first.jobs[0]?.id);
  expect(await intake.submit([request({ payload: { customer: 8 } })])).toMatchObject({ jobs: [{ state: "Enqueued" }] });
  expect(database.jobs.size).toBe(2);
});

it("the same request with the same key is one, in whatever order its members stand, for a day", async () => {
  const { database, intake, pass } = scene();
  const first = await intake.submit([request({ payload: { a: 1, b: 2 } })], ONCE);
  expect(first).toMatchObject({ kind: "created", replayed: false });
  expect(await intake.submit([request({ payload: { b: 2, a: 1 } })], ONCE)).toEqual({ ...first, replayed: true });
  const other = [
    request({ payload: { a: 2, b: 2 } }),
    request({ payload: { a: 1, b: 2 }, priority: 1 }),
    request({ payload: { a: 1, b: 2 }, due: { afterMs: 5 } }),
    request({ payload: { a: 1, b: 2 }, concurrencyKey: "c" }),
  ];
  for (const one of other)
    expect(await intake.submit([one], ONCE)).toEqual({ kind: "conflict", reason: "other-request" });
  pass(IDEMPOTENCY_RETENTION_MS + 1);
  expect(await intake.submit([request()], ONCE)).toMatchObject({ replayed: false });
  expect(database.jobs.size).toBe(2);
});

it("an insert whose answer was lost is repeated with an idempotency key, and never without one", async () => {
  const { database, connection, intake } = scene();
  connection.next.set("insertJobsOnce", ["lost-reply", "lost-request"]);
  const outcome = await intake.submit([request()], ONCE);
  expect(outcome).toMatchObject({ kind: "created", jobs: [{ state: "Enqueued" }] });
  expect(database.jobs.size).toBe(1);
  connection.next.set("insertJobs", ["lost-reply"]);
  await expect(intake.submit([request()])).rejects.toThrow(/connection to PostgreSQL was lost/);
  expect(database.jobs.size).toBe(2);
});

it("a request that stays of unknown outcome is given up, and told as such", async () => {
  const { database, connection, intake } = scene();
  connection.weather = "up";
  connection.next.set("insertJobsOnce", ["lost-request", "lost-request", "lost-request"]);
  await expect(intake.submit([request()], ONCE)).rejects.toThrow(/lost/);
  expect(database.jobs.size).toBe(0);
});
