import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { TAKE_OUTBOX } from "../../runtime/adapters/postgres/outbox-statements.ts";
import { createOutboxStore } from "../../runtime/adapters/postgres/outbox-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { NewJob } from "../../runtime/protocol/ports/jobs.ts";
import type { RelayVerdict } from "../../runtime/protocol/ports/outbox.ts";
import type { BrokerMessage } from "../../runtime/protocol/ports/transport.ts";
import { finishOf } from "../contract/definitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, jobDefinition } from "../support/declare.ts";
import { holdTransaction, runBehind, untilBlocked } from "./held-transaction.ts";

const noRing = { ring: () => {} };

let testDatabase: TestDatabase;
let database: Database;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 4,
    statementTimeoutMs: 20_000,
    logger: silentLogger,
  });
  await declareJobType(database, jobDefinition("work"));
});
beforeEach(async () => {
  const outbox = createOutboxStore(database);
  await database.query("delete from turno.jobs_live");
  await outbox.setTransport("postgres");
  await outbox.setTransport("rabbitmq");
});
afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

function newJob(): NewJob {
  const plain = { queue: null, payload: {}, priority: 0, due: null, maxAttempts: null, timeoutMs: null };
  return { id: ids.jobId(), type: "work", ...plain };
}

async function insert(on: Database = database, count = 1): Promise<readonly JobId[]> {
  const jobs = Array.from({ length: count }, newJob);
  await createJobStore(on, noRing).insertJobs(jobs);
  return jobs.map(({ id }) => id);
}

/** What one turn of the relay is given. */
async function relay(on: Database = database, verdict: RelayVerdict = "remove"): Promise<readonly (JobId | null)[]> {
  const seen: (JobId | null)[] = [];
  await createOutboxStore(on).relayBatch(1_000, async (messages) => {
    seen.push(...messages.map(jobOf));
    return messages.map(() => verdict);
  });
  return seen;
}

/** What a statement looks at when it runs. */
async function countBlocks(query: Database["query"], text: string, values: readonly unknown[] = []): Promise<number> {
  const [row] = await query<{ "QUERY PLAN": [{ Plan: Record<string, number> }] }>(
    `explain (analyze, buffers, format json) ${text}`,
    values,
  );
  const plan = row?.["QUERY PLAN"][0].Plan ?? {};
  return (plan["Shared Hit Blocks"] ?? 0) + (plan["Shared Read Blocks"] ?? 0);
}

function jobOf(message: BrokerMessage): JobId | null {
  return message.kind === "marker" ? null : message.jobId;
}

async function countTriggers(): Promise<number> {
  const rows = await database.query("select from pg_trigger where tgname like 'tell\\_of\\_%'");
  return rows.length;
}

describe("the outbox on PostgreSQL", () => {
  it("costs nothing on the PostgreSQL transport: there is no trigger then", async () => {
    expect(await countTriggers()).toBe(3);
    await createOutboxStore(database).setTransport("postgres");
    expect(await countTriggers()).toBe(0);
    await insert();
    expect(await database.query("select from turno.outbox_message")).toEqual([]);
  });

  it("keeps its id from one transport to the next", async () => {
    const outbox = createOutboxStore(database);
    const { id } = await outbox.loadInstallation();
    expect(id).toMatch(/^[0-9a-f]{10}$/);
    await outbox.setTransport("servicebus");
    expect(await outbox.loadInstallation()).toEqual({ id, transport: "servicebus" });
  });

  it("has nothing of a transaction that was rolled back, and all of it from the commit on", async () => {
    const held = await holdTransaction(testDatabase.address);
    const [id] = await insert(held.database);
    expect(await relay()).toEqual([]);
    await held.commit();
    expect(await relay()).toEqual([id]);
    await expect(
      database.transaction(async (query) => {
        const on = { ...database, query, prepared: query };
        await insert(on);
        throw new Error("no");
      }),
    ).rejects.toThrow("no");
    expect(await relay()).toEqual([]);
  });

  it("gives out a message that was written first and committed last", async () => {
    const held = await holdTransaction(testDatabase.address);
    const [first] = await insert(held.database);
    const [second] = await insert();
    expect(await relay()).toEqual([second]);
    await held.commit();
    expect(await relay()).toEqual([first]);
  });

  it("is read from where the last look ended, and all of it after a while: what committed late comes then", async () => {
    let nowMs = 0;
    const outbox = createOutboxStore(database, { monotonicMs: () => nowMs });
    const look = async () => {
      const seen: (JobId | null)[] = [];
      await outbox.relayBatch(100, async (messages) => {
        seen.push(...messages.map(jobOf));
        return messages.map(() => "remove");
      });
      return seen;
    };
    const held = await holdTransaction(testDatabase.address);
    const [late] = await insert(held.database);
    const [second] = await insert();
    expect(await look()).toEqual([second]);
    // As if the transaction had begun five seconds ago.
    await held.database.query("update turno.outbox_message set due_at = now() - interval '5 seconds'");
    await held.commit();
    expect(await look()).toEqual([]);
    nowMs = 5_000;
    expect(await look()).toEqual([late]);
  });

  it("reads as much for the last message as for the first, however many that are gone a long transaction still sees", async () => {
    const pinning = await holdTransaction(testDatabase.address);
    await pinning.database.query("set transaction isolation level repeatable read");
    await pinning.database.query("select from turno.jobs_live");
    await database.query(
      `insert into turno.outbox_message (kind, job_id, token, queue, due_at)
       select 'dispatch', gen_random_uuid(), n, 'q', now() - interval '1 hour' + n * interval '4 milliseconds' from generate_series(1, 6000) as n`,
    );
    const blocks: number[] = [];
    const explained: Database = {
      ...database,
      transaction: (work) =>
        database.transaction((query) =>
          work(async (text, values) => {
            if (text === TAKE_OUTBOX) blocks.push(await countBlocks(query, text, values));
            return query(text, values);
          }),
        ),
    };
    const outbox = createOutboxStore(explained, { monotonicMs: () => 0 });
    for (let turn = 0; turn < 12; turn += 1) {
      await outbox.relayBatch(500, async (messages) => messages.map(() => "remove"));
    }
    await pinning.rollback();
    expect(await database.query("select from turno.outbox_message")).toEqual([]);
    expect(blocks[0]).toBeGreaterThan(5);
    expect(blocks.at(-1)).toBeLessThan((blocks[0] ?? 0) * 3);
  });

  it("is given to one relay at a time, and the next has it at once when the first has died", async () => {
    const ids = await insert(database, 3);
    const held = await holdTransaction(testDatabase.address);
    expect(await relay(held.database)).toEqual(ids);
    expect(await createOutboxStore(database).relayBatch(10, async () => [])).toBeNull();
    await held.rollback();
    expect(await relay()).toEqual(ids);
  });

  it("is not given to a relay again that another has removed it from meanwhile", async () => {
    const [first] = await insert();
    const held = await holdTransaction(testDatabase.address);
    expect(await relay(held.database)).toEqual([first]);
    const [second] = await insert();
    await held.commit();
    expect(await relay()).toEqual([second]);
  });

  it("does not keep an enqueueing job waiting while the broker confirms", async () => {
    await insert();
    const held = await holdTransaction(testDatabase.address);
    await relay(held.database);
    const [second] = await insert();
    const worker = ids.workerId();
    const executions = createExecutionStore({ database, logger: silentLogger, monotonicMs: () => performance.now() });
    const request = { workerId: worker, queue: "default", limit: 10, after: null, exceptTypes: [] };
    const { jobs } = await executions.claimJobs(request);
    expect(jobs).toHaveLength(2);
    for (const { id, token } of jobs) {
      const failed = { outcome: "failed", next: "Failed", reason: "failed", error: "x".repeat(9_000) } as const;
      const stack = "y".repeat(20_000);
      expect(await executions.finishJob(worker, finishOf({ jobId: id, token }, { ...failed, stack }))).toBe("landed");
    }
    await held.commit();
    const letters: BrokerMessage[] = [];
    await createOutboxStore(database).relayBatch(10, async (messages) => {
      letters.push(...messages.filter(({ kind }) => kind === "dead-letter"));
      return messages.map(() => "keep");
    });
    expect(letters.map(jobOf)).toContain(second);
    for (const letter of letters)
      expect(JSON.stringify(letter.kind === "dead-letter" && letter.body).length).toBeLessThan(26_000);
  });

  it("goes to a broker with every job of transactions that are under way, each told of once", async () => {
    const outbox = createOutboxStore(database);
    await outbox.setTransport("postgres");
    const [before] = await insert();
    const [during] = await runBehind(
      { address: testDatabase.address, database },
      (held) => insert(held),
      () => outbox.setTransport("rabbitmq"),
    );
    const [after] = await insert();
    expect(await relay()).toEqual([before, during[0], after]);
  });

  it("lets a job in that waits for the change, and tells of it", async () => {
    const outbox = createOutboxStore(database);
    await outbox.setTransport("postgres");
    const held = await holdTransaction(testDatabase.address);
    await createOutboxStore(held.database).setTransport("rabbitmq");
    const inserting = insert();
    await untilBlocked(database);
    await held.commit();
    expect(await relay()).toEqual(await inserting);
  });

  it("is changed by one of two that ask at once, and waits for a relay's turn", async () => {
    const outbox = createOutboxStore(database);
    expect(await Promise.all([outbox.setTransport("servicebus"), outbox.setTransport("servicebus")])).toHaveLength(2);
    expect(await countTriggers()).toBe(3);
    await insert();
    const [published, changed] = await runBehind(
      { address: testDatabase.address, database },
      (held) => relay(held),
      () => outbox.setTransport("postgres"),
    );
    expect([published.length, changed]).toEqual([1, true]);
  });

  it("tells of batches of every size, with their tokens", async () => {
    const many = await insert(database, 700);
    const rows = await database.query<{ wrong: number; messages: number }>(
      `select count(*)::int as messages, count(*) filter (where j.dispatch_id is distinct from o.token or j.queue <> o.queue)::int as wrong
       from turno.outbox_message o left join turno.jobs_live j on j.id = o.job_id`,
    );
    expect(rows).toEqual([{ messages: many.length, wrong: 0 }]);
    expect(await relay(database, "keep")).toHaveLength(many.length);
  });
});

describe("the outbox in a storm", () => {
  it("loses nothing and lets nothing start twice, with three relays, an unsure broker and every message delivered to two", async () => {
    const random = seededRandom(41);
    const published: BrokerMessage[] = [];
    let inserting = true;
    const inserters = Array.from({ length: 2 }, async () => {
      const made: JobId[] = [];
      for (let batch = 0; batch < 15; batch += 1) made.push(...(await insert(database, 1 + (batch % 5) * 7)));
      return made;
    });
    const relays = Array.from({ length: 3 }, async () => {
      const outbox = createOutboxStore(database);
      let removed = 0;
      while (inserting || (await outbox.readOutbox()).messages > 0) {
        const batch = await outbox.relayBatch(20, async (messages) => {
          published.push(...messages);
          return messages.map(() => (random.next() < 0.2 ? "keep" : "remove"));
        });
        removed += batch?.removed ?? 0;
      }
      return removed;
    });
    const made = (await Promise.all(inserters)).flat();
    inserting = false;
    const removed = (await Promise.all(relays)).reduce((sum, count) => sum + count, 0);
    expect(removed).toBe(made.length);
    expect(published.length).toBeGreaterThan(made.length);

    const claims = await Promise.all(
      Array.from({ length: 2 }, () => {
        const store = createExecutionStore({ database, logger: silentLogger, monotonicMs: () => performance.now() });
        const worker = ids.workerId();
        return published.map((message) => (message.kind === "dispatch" ? store.claimDelivery(worker, message) : null));
      }).flat(),
    );
    const started = claims.flatMap((claim) => (claim === null || claim === "limited" ? [] : [claim.id]));
    expect(started.toSorted()).toEqual(made.toSorted());
  });
});

describe("deliveries on PostgreSQL", () => {
  const storeOn = (on: Database) =>
    createExecutionStore({ database: on, logger: silentLogger, monotonicMs: () => performance.now() });

  async function dispatches(count: number) {
    await insert(database, count);
    const rows = await database.query<{ id: JobId; token: string }>(
      "select id, dispatch_id as token from turno.jobs_live where state = 'Enqueued' order by id",
    );
    return rows.map(({ id, token }) => ({ jobId: id, token: BigInt(token) as never }));
  }

  it("that come together are one statement", async () => {
    const messages = await dispatches(50);
    let statements = 0;
    const counting: Database = {
      ...database,
      prepared: (text, values) => {
        statements += 1;
        return database.prepared(text, values);
      },
    };
    const store = storeOn(counting);
    const claims = await Promise.all(messages.map((message) => store.claimDelivery(ids.workerId(), message)));
    expect(claims.filter((claim) => claim !== null)).toHaveLength(50);
    statements = 0;
    const worker = ids.workerId();
    const more = await dispatches(50);
    await Promise.all(more.map((message) => store.claimDelivery(worker, message)));
    expect(statements).toBe(1);
  });

  it("split off one that PostgreSQL cannot read, and claim the others", async () => {
    const [first, second] = await dispatches(2);
    if (first === undefined || second === undefined) throw new Error("two jobs are in the queue");
    const worker = ids.workerId();
    const store = storeOn(database);
    const bad = { jobId: "no id" as JobId, token: 1n as never };
    const settled = await Promise.allSettled(
      [first, bad, second].map((message) => store.claimDelivery(worker, message)),
    );
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(
      settled.map((one) => (one.status === "fulfilled" && typeof one.value === "object" ? one.value?.id : null)),
    ).toEqual([first.jobId, null, second.jobId]);
  });

  it("are claimed once when two workers have the same message at the same time", async () => {
    const [message] = await dispatches(1);
    if (message === undefined) throw new Error("a job is in the queue");
    const [first, second] = await runBehind(
      { address: testDatabase.address, database },
      (held) => storeOn(held).claimDelivery(ids.workerId(), message),
      () => storeOn(database).claimDelivery(ids.workerId(), message),
    );
    expect(first).toMatchObject({ id: message.jobId });
    expect(second).toBeNull();
  });

  it("reject when the database is away: that is not a stale message", async () => {
    const [message] = await dispatches(1);
    if (message === undefined) throw new Error("a job is in the queue");
    const away = openDatabase({
      address: { connectionString: "postgres://nobody@127.0.0.1:1/none" },
      applicationName: "test",
      size: 1,
      statementTimeoutMs: 1_000,
      logger: silentLogger,
    });
    const store = storeOn(away);
    await expect(store.claimDelivery(ids.workerId(), message)).rejects.toThrow("PostgreSQL did not answer");
    await expect(store.deferDelivery(message, 1_000)).rejects.toThrow("PostgreSQL did not answer");
    await away.close();
  });
});
