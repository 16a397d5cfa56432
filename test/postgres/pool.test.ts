import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { createLeaseStore } from "../../runtime/adapters/postgres/lease-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { RejectedError, UnknownOutcomeError } from "../../runtime/protocol/ports/errors.ts";
import type { ClaimedJob } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf } from "../contract/definitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";
import { type Pooler, startPooler } from "./pooler.ts";

let testDatabase: TestDatabase;
const opened: Database[] = [];

beforeAll(async () => {
  testDatabase = await createTestDatabase();
});
afterEach(async () => {
  for (const database of opened.splice(0)) await database.close();
});
afterAll(() => testDatabase.drop());

function open(connectionString: string): Database {
  const database = openDatabase({
    address: { connectionString },
    applicationName: "pool test",
    size: 2,
    statementTimeoutMs: 4_321,
    logger: silentLogger,
  });
  opened.push(database);
  return database;
}

async function read(database: Database, expression: string): Promise<unknown> {
  const [row] = await database.query<{ value: unknown }>(`select ${expression} as value`);
  return row?.value;
}

describe("a session", () => {
  it("has time limits on the server", async () => {
    const database = open(testDatabase.address.connectionString);
    expect(await read(database, "current_setting('statement_timeout')")).toBe("4321ms");
    expect(await read(database, "current_setting('idle_in_transaction_session_timeout')")).toBe("30s");
  });

  it("reads times and dates alike, whatever the database's own style and time zone", async () => {
    const other = await createTestDatabase();
    try {
      const name = new URL(other.address.connectionString).pathname.slice(1);
      const admin = open(testDatabase.address.connectionString);
      await admin.query(`alter database ${name} set DateStyle to 'SQL, DMY'`);
      await admin.query(`alter database ${name} set TimeZone to 'Asia/Kolkata'`);
      const database = open(other.address.connectionString);
      expect(await read(database, "timestamptz '2026-02-01 23:30:00+00'")).toEqual(new Date("2026-02-01T23:30:00Z"));
      expect(await read(database, "timestamptz '2026-02-01 23:30:00+00'::date")).toBe("2026-02-01");
      await database.close();
      opened.pop();
    } finally {
      await other.drop();
    }
  });

  it("outlives a statement that is refused", async () => {
    const database = open(testDatabase.address.connectionString);
    const before = await read(database, "pg_backend_pid()");
    await expect(database.query("select 1 / 0")).rejects.toMatchObject({ sqlState: "22012" });
    await expect(database.transaction((query) => query("select 1 / 0"))).rejects.toBeInstanceOf(RejectedError);
    expect(await read(database, "pg_backend_pid()")).toBe(before);
  });

  it("that cannot be had is a rejection: nothing has left", async () => {
    const database = open("postgres://turno@127.0.0.1:1/turno");
    await expect(database.query("select 1")).rejects.toBeInstanceOf(RejectedError);
    await expect(database.transaction((query) => query("select 1"))).rejects.toBeInstanceOf(RejectedError);
    const missing = new URL(testDatabase.address.connectionString);
    missing.pathname = "/not_there";
    await expect(open(missing.href).query("select 1")).rejects.toMatchObject({ sqlState: "3D000" });
  });
});

describe("behind a pooler in transaction mode", () => {
  let pooler: Pooler;

  beforeEach(async () => {
    pooler = await startPooler(testDatabase.address.connectionString);
  });
  afterEach(() => pooler.close());

  it("statements run, and transactions bring their time limits along", async () => {
    const database = open(pooler.connectionString);
    expect(await Promise.all([1, 2, 3].map((one) => read(database, String(one))))).toEqual([1, 2, 3]);
    expect(await read(database, "current_setting('statement_timeout')")).toBe("0");
    const inside = await database.transaction((query) =>
      query<{ value: string }>("select current_setting('statement_timeout') as value"),
    );
    expect(inside).toEqual([{ value: "4321ms" }]);
    expect(await read(database, "current_setting('TimeZone')")).toBe("UTC");
  });

  it("no statement of a job's way is prepared under a name", async () => {
    const database = open(pooler.connectionString);
    await declareJobType(database, jobDefinition("work"));
    const executions = createExecutionStore({ database, logger: silentLogger, monotonicMs: () => performance.now() });
    const leases = createLeaseStore(database, { ring: () => {} });
    const workerId = ids.workerId();
    for (let round = 0; round < 3; round++) {
      const job = {
        type: "work",
        queue: null,
        payload: {},
        priority: 0,
        due: null,
        maxAttempts: null,
        timeoutMs: null,
      };
      await createJobStore(database, { ring: () => {} }).insertJobs([{ id: ids.jobId(), ...job }]);
      const request = { workerId, queue: "default", limit: 5, after: null, exceptTypes: [] };
      const [claimed] = (await executions.claimJobs(request)).jobs;
      const owned = { jobId: (claimed as ClaimedJob).id, token: (claimed as ClaimedJob).token };
      await leases.renewLeases(workerId, [{ ...owned, runningMs: 5 }]);
      expect(await executions.finishJob(workerId, finishOf(owned))).toBe("landed");
    }
    expect(pooler.parsed.length).toBeGreaterThan(10);
    expect(new Set(pooler.parsed)).toEqual(new Set([""]));
  });

  it("a session that ends in the instant it is given out costs a statement, not the process", async () => {
    const database = open(pooler.connectionString);
    pooler.endNext = true;
    await expect(database.query("select 1")).rejects.toThrow();
    expect(await read(database, "1")).toBe(1);
  });

  it("a connection that breaks under a statement leaves its outcome unknown", async () => {
    const database = open(pooler.connectionString);
    const backend = await read(database, "pg_backend_pid()");
    const waiting = database.query("select pg_sleep(30)");
    const failed = expect(waiting).rejects.toBeInstanceOf(UnknownOutcomeError);
    const watcher = open(testDatabase.address.connectionString);
    for (;;) {
      const [row] = await watcher.query<{ state: string }>(
        "select state from pg_stat_activity where pid = $1 and query like '%pg_sleep%'",
        [backend],
      );
      if (row?.state === "active") break;
    }
    pooler.cut();
    await failed;
    expect(await read(database, "1")).toBe(1);
  });
});
