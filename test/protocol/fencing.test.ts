import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import { type Connection, connect } from "../../runtime/adapters/memory/faulty-store.ts";
import { createMemoryLocks, noLocks } from "../../runtime/adapters/memory/locks.ts";
import { countingIds, seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { createMemoryStore, type MemoryStore } from "../../runtime/adapters/memory/store.ts";
import { createVirtualClock } from "../../runtime/adapters/memory/virtual-clock.ts";
import type { DispatchToken, JobId, WorkerId } from "../../runtime/core/ids.ts";
import type { Execution } from "../../runtime/protocol/execution.ts";
import { type DeliveryPorts, runDelivery } from "../../runtime/protocol/fencing.ts";
import { Leases } from "../../runtime/protocol/leases.ts";
import { RejectedError } from "../../runtime/protocol/ports/errors.ts";
import type { HandlerOutcome } from "../../runtime/protocol/ports/handlers.ts";
import type { EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";
import type { LockManager } from "../../runtime/protocol/ports/transport.ts";
import { jobDefinition } from "../contract/definitions.ts";
import { declareJob, viewJob } from "../services/memory-view.ts";

const RETURNED: HandlerOutcome = { kind: "returned", result: "1", resultError: null };
const clock = createVirtualClock();
let database: MemoryDatabase;
let store: MemoryStore;
let connection: Connection<MemoryStore>;
let events: EngineEvent[];
let ending: AbortController;
let story: string[];
let id: JobId;
const ids = countingIds();

beforeEach(async () => {
  database = new MemoryDatabase(clock.monotonicMs);
  store = createMemoryStore(database);
  connection = connect(store);
  events = [];
  story = [];
  ending = new AbortController();
  declareJob(database, jobDefinition({ type: "work" }));
  id = ids.jobId();
  await store.insertJobs([
    { id, type: "work", queue: null, payload: {}, priority: 0, due: null, maxAttempts: null, timeoutMs: null },
  ]);
});
afterEach(() => ending.abort());

function ports(
  options: {
    readonly locks?: Pick<LockManager, "acquire">;
    readonly handler?: (execution: Execution) => Promise<HandlerOutcome>;
    readonly takeSlot?: DeliveryPorts["takeSlot"];
  } = {},
): DeliveryPorts {
  const workerId = ids.workerId();
  const observer = { observe: (event: EngineEvent) => void events.push(event) };
  const leases = new Leases({
    store: connection.store,
    workerId,
    clock,
    observer,
    settings: { leaseMs: 60_000, renewalMs: 10_000 },
    onDropped: () => {},
  });
  return {
    workerId,
    store: connection.store,
    deliveries: connection.store,
    locks: options.locks ?? noLocks,
    leases,
    clock,
    observer,
    random: seededRandom(1),
    deferMs: 5_000,
    signal: ending.signal,
    onStoreError: () => {},
    takeSlot: options.takeSlot ?? (async () => true),
    startHandler: (execution) => {
      story.push("start");
      execution.startedMs = clock.monotonicMs();
      execution.definition = database.definitions.get(execution.job.definitionHash ?? "") ?? null;
      return (options.handler ?? (() => Promise.resolve(RETURNED)))(execution);
    },
    freeSlot: () => story.push("free"),
  };
}

function delivery(token?: bigint) {
  const current = database.jobs.get(id)?.token;
  return {
    message: { kind: "dispatch" as const, jobId: id, token: (token ?? current) as DispatchToken, queue: "default" },
    acknowledge: async () => void story.push("acknowledge"),
  };
}

describe("a delivery", () => {
  it("is locked, claimed, acknowledged before the handler starts, and finished", async () => {
    const locks = createMemoryLocks();
    expect(await runDelivery(delivery(), ports({ locks }))).toBe("landed");
    expect(story).toEqual(["acknowledge", "start", "free"]);
    expect(viewJob(database, id)).toMatchObject({ state: "Succeeded", attempts: ["succeeded"] });
    expect(locks.held.size).toBe(0);
  });

  it("whose job is given back before it gets a slot starts nothing, and keeps its lock until then", async () => {
    const locks = createMemoryLocks();
    let giveBack: (takes: boolean) => void = () => {};
    const waiting = runDelivery(
      delivery(),
      ports({ locks, takeSlot: () => new Promise((resolve) => (giveBack = resolve)) }),
    );
    await clock.settle();
    expect(story).toEqual(["acknowledge"]);
    expect(locks.held.size).toBe(1);
    giveBack(false);
    expect(await waiting).toBe("returned");
    expect(story).toEqual(["acknowledge"]);
    expect(locks.held.size).toBe(0);
  });

  it("whose queue has a limit is acknowledged and left to its turn", async () => {
    database.queues.set("default", { concurrency: 1, suspended: false });
    const message = delivery();
    expect(await runDelivery(message, ports())).toBe("limited");
    expect(story).toEqual(["acknowledge"]);
    expect(viewJob(database, id)).toMatchObject({ state: "Enqueued" });
  });

  it("that is delivered many times runs once; the others are acknowledged and dropped", async () => {
    const shared = delivery();
    const endings = await Promise.all(Array.from({ length: 5 }, () => runDelivery(shared, ports())));
    expect(endings.filter((ending) => ending === "landed")).toHaveLength(1);
    expect(endings.filter((ending) => ending === "stale")).toHaveLength(4);
    expect(story.filter((what) => what === "acknowledge")).toHaveLength(5);
    expect(story.filter((what) => what === "start")).toHaveLength(1);
  });

  it("with the token of an earlier dispatch is dropped", async () => {
    const old = delivery();
    await runDelivery(delivery(), ports({ handler: () => Promise.resolve({ kind: "crashed", detail: "x" }) }));
    await clock.advance(900_000);
    await store.promoteDue(1);
    expect(await runDelivery(old, ports())).toBe("stale");
    expect(await runDelivery(delivery(), ports())).toBe("landed");
  });

  it("whose lock is busy is put off, by a write that never touches a job that runs (F3)", async () => {
    const locks = createMemoryLocks();
    await locks.acquire(`job:${id}`);
    const message = delivery();
    expect(await runDelivery(message, ports({ locks }))).toBe("deferred");
    expect(viewJob(database, id)).toMatchObject({ state: "Scheduled", dueInMs: 5_000 });

    await clock.advance(5_000);
    await store.promoteDue(1);
    const running = delivery();
    await store.claimDelivery(ids.workerId(), running.message);
    expect(await runDelivery(running, ports({ locks }))).toBe("stale");
    expect(viewJob(database, id)).toMatchObject({ state: "Processing" });
  });

  it("goes on without its lock while the lock service is away (F1)", async () => {
    const locks = createMemoryLocks();
    locks.away = true;
    expect(await runDelivery(delivery(), ports({ locks }))).toBe("landed");
  });

  it("is safe under a lock service that gives every lock to everybody (F2)", async () => {
    const shared = delivery();
    const endings = await Promise.all([runDelivery(shared, ports()), runDelivery(shared, ports())]);
    expect(endings.sort()).toEqual(["landed", "stale"]);
  });

  it("ends as it ended when its lock cannot be released (F6)", async () => {
    const locks: Pick<LockManager, "acquire"> = {
      acquire: () => Promise.resolve({ kind: "acquired", release: () => Promise.reject(new Error("no quorum")) }),
    };
    expect(await runDelivery(delivery(), ports({ locks }))).toBe("landed");
  });

  it("is not acknowledged when the database cannot say whether it was claimed, and nothing starts (F9, F10)", async () => {
    for (const weather of ["away", "serialization", "lost-request", "lost-reply"] as const) {
      connection.next.set("claimDelivery", [weather]);
      await expect(runDelivery(delivery(), ports())).rejects.toThrow();
    }
    expect(story).toEqual([]);
    // The last claim committed: the message that comes again finds the row taken.
    expect(await runDelivery(delivery(), ports())).toBe("stale");
  });
});

describe("a final write", () => {
  it("is offered again after a serialization error and after a lost request or answer, and lands once (F06)", async () => {
    connection.next.set("finishJob", ["serialization", "away", "lost-request", "lost-reply"]);
    const running = runDelivery(delivery(), ports());
    await clock.advance(10_000);
    expect(await running).toBe("landed");
    expect(viewJob(database, id)).toMatchObject({ state: "Succeeded", attempts: ["succeeded"], execution: 1 });
    expect(events.map((event) => event.kind)).toEqual(["job-finished"]);
  });

  it("that comes after the job went to somebody else is refused and said to be (E05)", async () => {
    let finish: (outcome: HandlerOutcome) => void = () => {};
    const running = runDelivery(delivery(), ports({ handler: () => new Promise((resolve) => (finish = resolve)) }));
    await clock.settle();
    const [seen] = await store.observeLeases();
    if (seen === undefined) throw new Error("nothing runs");
    await store.recoverJobs([seen]);
    const second = await store.claimRecovered({ workerId: ids.workerId(), queue: "default", exceptTypes: [] });
    finish(RETURNED);
    expect(await running).toBe("fenced");
    expect(events).toEqual([{ kind: "fenced", jobId: id, type: "work", outcome: "succeeded" }]);
    expect(viewJob(database, id)).toMatchObject({ state: "Processing", result: null, execution: 2 });
    expect(second?.token).toBeGreaterThan(seen.token);
  });

  it("whose result PostgreSQL does not take ends the job without it (F37)", async () => {
    const refusing = ports();
    const offered: (string | null)[] = [];
    const running = runDelivery(delivery(), {
      ...refusing,
      store: {
        finishJob: (workerId: WorkerId, finish) => {
          offered.push(finish.result);
          if (finish.result !== null)
            return Promise.reject(new RejectedError("unsupported Unicode escape", { sqlState: "22P05" }));
          return store.finishJob(workerId, finish);
        },
      },
    });
    await clock.advance(1_000);
    expect(await running).toBe("landed");
    expect(offered).toEqual(["1", null]);
    expect(viewJob(database, id)).toMatchObject({ state: "Succeeded", result: null });
    expect(database.jobs.get(id)?.resultError).toContain("unsupported Unicode escape");
  });

  it("whose children are refused becomes a failure that says so, and never a success without them", async () => {
    const child = { id: ids.jobId(), type: "work", queue: null, payload: {}, priority: 0 };
    const children = [{ ...child, due: null, maxAttempts: null, timeoutMs: null }];
    const refusing = ports({ handler: async () => ({ ...RETURNED, children }) });
    const play = runDelivery(delivery(), {
      ...refusing,
      store: {
        finishJob: async (workerId, finish) => {
          if (finish.children !== undefined) throw new RejectedError("out of range", { sqlState: "22008" });
          return store.finishJob(workerId, finish);
        },
      },
    });
    await clock.advance(1_000);
    expect(await play).toBe("landed");
    expect(viewJob(database, id)).toMatchObject({
      state: "Scheduled",
      failures: 1,
      attempts: ["failed"],
      error: expect.stringMatching(/^EnqueueError: what the handler enqueued could not be stored: .*out of range/),
    });
    expect(events.at(-1)).toMatchObject({ kind: "job-finished", outcome: "failed" });
    expect(viewJob(database, child.id)).toBeNull();
  });

  it("that is refused whatever it holds is left to recovery, which has a budget", async () => {
    const running = runDelivery(delivery(), {
      ...ports(),
      store: { finishJob: () => Promise.reject(new RejectedError("no partition", { sqlState: "23514" })) },
    });
    await clock.advance(60_000);
    expect(await running).toBe("left");
    expect(viewJob(database, id)).toMatchObject({ state: "Processing" });
  });

  it("is given up when the worker's patience ends", async () => {
    connection.next.set(
      "finishJob",
      Array.from({ length: 50 }, () => "away" as const),
    );
    const running = runDelivery(delivery(), ports());
    await clock.advance(3_000);
    ending.abort();
    expect(await running).toBe("left");
  });
});
