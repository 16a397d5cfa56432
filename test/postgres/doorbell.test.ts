import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { createDoorbell } from "../../runtime/adapters/postgres/doorbell.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { type Logger, silentLogger } from "../../runtime/core/logger.ts";
import type { Doorbell, DoorbellTopic } from "../../runtime/protocol/ports/transport.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startPooler } from "./pooler.ts";

let testDatabase: TestDatabase;
let database: Database;
const ends: (() => void | Promise<void>)[] = [];

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
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

function doorbellAt(connectionString: string, logger: Logger = silentLogger): Doorbell {
  const doorbell = createDoorbell({ database, address: { connectionString }, logger });
  ends.push(() => doorbell.close());
  return doorbell;
}

/** Listens, and resolves when it does: a gap is told at the start of each listening. */
function listening(doorbell: Doorbell, onRing: (topic: DoorbellTopic) => void): Promise<void> {
  const stop = new AbortController();
  ends.push(() => stop.abort());
  return new Promise((onGap) => doorbell.listen({ onRing, onGap }, stop.signal));
}

it("is heard by everybody who listens, whatever the topic", async () => {
  const doorbell = doorbellAt(testDatabase.address.connectionString);
  const topics: DoorbellTopic[] = [
    { kind: "queue", queue: "a:b" },
    { kind: "cancel", jobId: "00000000-0000-7000-8000-000000000001" as JobId },
    { kind: "schedules" },
    { kind: "revision" },
  ];
  const heard = [1, 2].map(async () => {
    const rings: DoorbellTopic[] = [];
    let done: () => void = () => {};
    const all = new Promise<void>((resolve) => (done = resolve));
    await listening(doorbellAt(testDatabase.address.connectionString), (topic) => {
      rings.push(topic);
      if (rings.length === topics.length) done();
    });
    return { rings, all };
  });
  const ears = await Promise.all(heard);
  for (const topic of topics) doorbell.ring(topic);
  for (const { rings, all } of ears) {
    await all;
    expect(rings).toEqual(topics);
  }
});

it("hears through one session for all listeners of a process, which ends with the last of them", async () => {
  const doorbell = doorbellAt(testDatabase.address.connectionString);
  const sessions = async (): Promise<unknown> => {
    const [row] = await database.query<{ sessions: number }>(
      "select count(*)::int as sessions from pg_stat_activity where application_name = 'turno-doorbell' and datname = current_database() and query like 'listen%'",
    );
    return row?.sessions;
  };
  const before = await sessions();
  const heard: string[] = [];
  let all: () => void = () => {};
  const both = new Promise<void>((resolve) => (all = resolve));
  const stops = ["first", "second"].map((name) => {
    const stop = new AbortController();
    const begun = new Promise<void>((onGap) =>
      doorbell.listen({ onRing: () => heard.push(name) === 2 && all(), onGap }, stop.signal),
    );
    return { stop, begun };
  });
  for (const { begun } of stops) await begun;
  expect(await sessions()).toBe(Number(before) + 1);
  doorbell.ring({ kind: "schedules" });
  await both;
  expect(heard).toEqual(["first", "second"]);

  stops[0]?.stop.abort();
  const again = listening(doorbell, () => {});
  await again;
  expect(await sessions()).toBe(Number(before) + 1);
  for (const end of ends.splice(1)) await end();
  stops[1]?.stop.abort();
  await vi.waitFor(async () => expect(await sessions()).toBe(before), { timeout: 10_000, interval: 20 });
});

it("says what it was asked to say shortly before its end", async () => {
  const rings: DoorbellTopic[] = [];
  let heard: () => void = () => {};
  const all = new Promise<void>((resolve) => (heard = resolve));
  await listening(doorbellAt(testDatabase.address.connectionString), (topic) => {
    rings.push(topic);
    if (rings.length === 3) heard();
  });
  const doorbell = doorbellAt(testDatabase.address.connectionString);
  doorbell.ring({ kind: "queue", queue: "a" });
  doorbell.ring({ kind: "queue", queue: "b" });
  // Within the time in which a topic is quiet.
  doorbell.ring({ kind: "queue", queue: "a" });
  await doorbell.close();
  doorbell.ring({ kind: "queue", queue: "late" });
  await all;
  expect(rings.map((topic) => (topic.kind === "queue" ? topic.queue : ""))).toEqual(["a", "b", "a"]);
});

it("ends in time though the database does not answer", async () => {
  const hanging: Database = { ...database, query: () => new Promise(() => {}) };
  const doorbell = createDoorbell({ database: hanging, address: testDatabase.address, logger: silentLogger });
  doorbell.ring({ kind: "schedules" });
  await doorbell.close();
});

it("does not listen through a pooler, where it would hear nothing, and says so once", async () => {
  const pooler = await startPooler(testDatabase.address.connectionString);
  ends.push(() => pooler.close());
  const warned = new Promise<readonly unknown[]>((resolve) => {
    const logger: Logger = { ...silentLogger, warn: (...said) => resolve(said) };
    void listening(doorbellAt(pooler.connectionString, logger), () => {});
  });
  expect(JSON.stringify(await warned)).toContain("unsupported startup parameter");
});
