import { afterAll, beforeAll, expect, test } from "vitest";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createWorkerStore } from "../../runtime/adapters/postgres/worker-store.ts";
import { systemIds } from "../../runtime/adapters/system/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

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
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

async function nextToken(): Promise<bigint> {
  const [row] = await database.query<{ token: string }>("select nextval('turno.dispatch_seq') as token");
  return BigInt(row?.token ?? "0");
}

test("tokens go on beyond everything that was given out before when the server's timeline changes, and only then", async () => {
  const store = createWorkerStore(database);
  const workerId = systemIds.workerId();
  const info = { id: workerId, name: "w", host: "h", pid: 1, version: "0", queues: [] };
  const beat = { worker: info, draining: false, unloadableBundles: [] };
  await store.registerWorker(info);
  const first = await nextToken();
  await store.heartbeat(beat);
  expect(await nextToken()).toBe(first + 1n);
  // What a promotion looks like from here: the timeline on record is not the server's any more.
  await database.query("update turno.installation set timeline = timeline + 1");
  await store.heartbeat(beat);
  const raised = await nextToken();
  expect(raised).toBe((1n << 40n) + 1n);
  await store.heartbeat(beat);
  expect(await nextToken()).toBe(raised + 1n);
});
