import { afterAll, beforeAll, expect, test } from "vitest";
import { createPanelQueries } from "../../runtime/adapters/postgres/panel-queries.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createWorkerStore } from "../../runtime/adapters/postgres/worker-store.ts";
import { systemIds } from "../../runtime/adapters/system/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { WELL } from "../contract/definitions.ts";
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
  const beat = { worker: info, draining: false, unloadableBundles: [], condition: WELL };
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

test("a heartbeat tells the database's time and keeps what the worker says of itself", async () => {
  const store = createWorkerStore(database);
  const info = { id: systemIds.workerId(), name: "ailing", host: "h", pid: 1, version: "0", queues: [] };
  const condition = { clockSkewMs: -4_000, handlersCutOff: 3, handlersStuck: 1, leasesFailing: true };
  await store.registerWorker(info);
  const { databaseTime } = await store.heartbeat({ worker: info, draining: false, unloadableBundles: [], condition });
  expect(Math.abs(databaseTime.getTime() - Date.now())).toBeLessThan(5_000);
  const panel = createPanelQueries(database);
  const { items } = await panel.listWorkers();
  expect(items.find(({ name }) => name === "ailing")).toMatchObject(condition);
  // Clocks that are years off fit too.
  const years = { ...condition, clockSkewMs: 1e12 };
  await store.heartbeat({ worker: info, draining: false, unloadableBundles: [], condition: years });
});
