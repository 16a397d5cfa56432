import { afterAll, beforeAll, expect, it } from "vitest";
import { createDoorbell } from "../../runtime/adapters/postgres/doorbell.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { NewJob } from "../../runtime/protocol/ports/jobs.ts";
import type { DoorbellTopic } from "../../runtime/protocol/ports/transport.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";

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

function job(options: Partial<NewJob> = {}): NewJob {
  const plain = { type: "work", queue: null, payload: {}, priority: 0, due: null, maxAttempts: null, timeoutMs: null };
  return { id: ids.jobId(), ...plain, ...options };
}

it("an insert rings with its own commit, one beside it after its own, and a delayed job not at all", async () => {
  const stop = new AbortController();
  const doorbell = createDoorbell({ database, address: testDatabase.address, logger: silentLogger });
  const heard: DoorbellTopic[] = [];
  let onHeard: () => void = () => {};
  await new Promise<void>((onGap) => {
    const onRing = (topic: DoorbellTopic) => {
      heard.push(topic);
      onHeard();
    };
    doorbell.listen({ onRing, onGap }, stop.signal);
  });
  const rungAfter: DoorbellTopic[] = [];
  const insert = (one: NewJob, store = createJobStore(database, { ring: (topic) => void rungAfter.push(topic) })) =>
    store.insertJobs([one]).then(() => store);

  await insert(job({ due: { afterMs: 60_000 } }));
  const rung = new Promise<void>((resolve) => (onHeard = resolve));
  const store = await insert(job({ queue: "reports" }));
  await rung;
  expect(heard).toEqual([{ kind: "queue", queue: "reports" }]);
  expect(rungAfter).toEqual([]);
  await Promise.all([insert(job(), store), insert(job(), store)]);
  expect(rungAfter.at(-1)).toEqual({ kind: "queue", queue: "default" });
  stop.abort();
  await doorbell.close();
});
