import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createMetricsQueries } from "../../runtime/adapters/postgres/metrics-queries.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { MOST_LABEL_VALUES } from "../../runtime/protocol/ports/metrics.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let testDatabase: TestDatabase;
let database: Database;
let client: pg.Client;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  client = new pg.Client(testDatabase.address);
  await client.connect();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 2,
    statementTimeoutMs: 5_000,
    logger: silentLogger,
  });
});
afterAll(async () => {
  await client.end();
  await database.close();
  await testDatabase.drop();
});

it("an installation without anything has figures, all of them zero or empty", async () => {
  const figures = await createMetricsQueries(database).loadFigures();
  expect(Object.values(figures).filter((value) => value !== 0 && JSON.stringify(value) !== "[]")).toEqual([]);
});

it("what was missed, decided, led, kept from the broker and ended within its time is told", async () => {
  await client.query(`insert into turno.sla_misses (schedule, expectation, due_at) values ('a', 'max-age', now())`);
  await client.query(
    `insert into turno.schedule_fires (schedule, fire_at, outcome, late_ms, decided_at) values
     ('a', now(), 'fired', 2500, now()), ('b', now(), 'missed', 9000, now()), ('c', now(), 'fired', 90000, now() - interval '2 hours')`,
  );
  await client.query(
    `insert into turno.duties (duty, worker_id, expires_at) values
     ('recovery', gen_random_uuid(), now() + interval '9 s'), ('cleanup', gen_random_uuid(), now() - interval '1 s')`,
  );
  await client.query(
    `insert into turno.outbox_message (kind, job_id, token, queue, created_at)
     values ('dispatch', gen_random_uuid(), 1, 'q', now() - interval '100 s')`,
  );
  await client.query(
    `insert into turno.minute_statistics (minute, queue, succeeded) values
     (now() - interval '5 min', 'q', 7), (now() - interval '3 hours', 'q', 100)`,
  );
  await client.query(`insert into turno.counter_deltas (queue, succeeded, enqueued) values ('q', 2, 3)`);
  const figures = await createMetricsQueries(database).loadFigures();
  expect(figures.slaMisses).toEqual([{ labels: ["max-age"], value: 1 }]);
  expect(figures.fires).toEqual([
    { labels: ["fired"], value: 1 },
    { labels: ["missed"], value: 1 },
  ]);
  expect(figures.largestLatenessSeconds).toBe(2.5);
  expect(figures.leaders).toEqual([{ labels: ["recovery"], value: 1 }]);
  expect(figures.outboxMessages).toBe(1);
  expect(Math.round(figures.outboxOldestSeconds / 10)).toBe(10);
  expect(figures.ended).toContainEqual({ labels: ["q", "Succeeded"], value: 9 });
  expect(figures.jobs).toContainEqual({ labels: ["q", "Enqueued"], value: 3 });
});

it("queues beyond the bound are summed as `other`, and no job of them is lost", async () => {
  await client.query("delete from turno.counter_deltas");
  await client.query(
    "insert into turno.queue_counts (queue, enqueued) select 'made-up-' || n, 1 from generate_series(1, 250) as n",
  );
  const { jobs } = await createMetricsQueries(database).loadFigures();
  const queued = jobs.filter(({ labels }) => labels[1] === "Enqueued");
  expect(queued).toHaveLength(MOST_LABEL_VALUES + 1);
  expect(queued.find(({ labels }) => labels[0] === "other")?.value).toBe(150);
});
