import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import { RejectedError } from "../../runtime/protocol/ports/errors.ts";
import type { LeaseObservation } from "../../runtime/protocol/ports/leases.ts";
import type { EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";
import { RunPace } from "../../runtime/services/claim-ahead.ts";
import { startCleanup } from "../../runtime/services/cleanup.ts";
import { DueWait } from "../../runtime/services/due-wait.ts";
import { startLeadership } from "../../runtime/services/leadership.ts";
import { LeaseWatch } from "../../runtime/services/lease-watch.ts";
import { startRecovery } from "../../runtime/services/recovery.ts";
import { type Loop, startLoop } from "../../runtime/services/supervised-loop.ts";
import { Engine, kinds } from "./engine.ts";

let engine: Engine;
let events: EngineEvent[];
const stops: (() => Promise<void>)[] = [];
beforeEach(() => {
  engine = new Engine();
  events = [];
});
afterEach(async () => {
  const stopped = Promise.all(stops.splice(0).map((stop) => stop()));
  await engine.clock.advance(60_000);
  await stopped;
  await engine.close();
});

function surroundings() {
  return {
    clock: engine.clock,
    random: seededRandom(5),
    observer: { observe: (event: EngineEvent) => void events.push(event) },
  };
}

function loop(cycle: (signal: AbortSignal) => Promise<number>): Loop {
  const started = startLoop({ ...surroundings(), name: "test", cycle });
  stops.push(started.stop);
  return started;
}

describe("a supervised loop", () => {
  it("waits as long as its round says, and at most half a minute", async () => {
    let rounds = 0;
    loop(async () => (++rounds === 1 ? 5_000 : 1e12));
    await engine.clock.advance(4_999);
    expect(rounds).toBe(1);
    await engine.clock.advance(1);
    expect(rounds).toBe(2);
    await engine.clock.advance(30_000);
    expect(rounds).toBe(3);
  });

  it("starts a round at once when it is woken, also when that came during a round", async () => {
    let rounds = 0;
    const started = loop(async () => {
      if (++rounds === 2) started.wake();
      return 20_000;
    });
    await engine.clock.settle();
    started.wake();
    await engine.clock.settle();
    expect(rounds).toBe(3);
  });

  it("backs off while the database is away, is not pressed by waking, and tells of it once", async () => {
    let rounds = 0;
    let away = true;
    const started = loop(async () => {
      rounds += 1;
      if (away) throw new RejectedError("PostgreSQL did not answer");
      return 1_000;
    });
    for (let second = 0; second < 60; second++) {
      started.wake();
      await engine.clock.advance(1_000);
    }
    expect(rounds).toBeLessThan(25);
    away = false;
    await engine.clock.advance(5_000);
    expect(events).toMatchObject([
      { kind: "database-away", loop: "test" },
      { kind: "database-back", loop: "test" },
    ]);
  });

  it("goes on after a round that fails for another reason, and tells of it as that", async () => {
    let rounds = 0;
    loop(async () => {
      if (++rounds < 3) throw new Error("a bug");
      return 1_000;
    });
    await engine.clock.advance(10_000);
    expect(rounds).toBeGreaterThan(5);
    expect(events).toEqual([{ kind: "loop-failed", loop: "test", message: "a bug" }]);
  });

  it("ends after the round that is under way", async () => {
    let finish: () => void = () => {};
    let ended = false;
    const started = loop(() => new Promise((resolve) => (finish = () => resolve(10))));
    const stopped = started.stop().then(() => (ended = true));
    await engine.clock.settle();
    expect(ended).toBe(false);
    finish();
    await stopped;
  });
});

describe("a duty", () => {
  function stand(name: string, mayLead: () => boolean = () => true) {
    const machine = engine.machine();
    const log: string[] = [];
    const leadership = startLeadership({
      ...surroundings(),
      store: machine.connection.store,
      workerId: machine.id,
      duty: "cleanup",
      mayLead,
      lead: () => {
        log.push(`${name} leads`);
        return [{ wake: () => log.push(`${name} wakes`), stop: async () => void log.push(`${name} stops`) }];
      },
    });
    stops.push(leadership.stop);
    return { leadership, log, connection: machine.connection };
  }

  it("has one leader, and another within about a second when that one stops", async () => {
    const [first, second] = [stand("first"), stand("second")];
    await engine.clock.advance(30_000);
    expect([first.leadership.isLeading(), second.leadership.isLeading()]).toEqual([true, false]);
    await first.leadership.stop();
    await engine.clock.advance(1_200);
    expect([first.leadership.isLeading(), second.leadership.isLeading()]).toEqual([false, true]);
    expect(first.log).toEqual(["first leads", "first stops"]);
    expect(kinds(events)).toEqual(["duty-taken", "duty-lost", "duty-taken"]);
  });

  it("is laid down by a leader that cannot extend its term in time, and taken by one that can", async () => {
    const [first, second] = [stand("first"), stand("second")];
    await engine.clock.advance(5_000);
    first.connection.weather = "away";
    await engine.clock.advance(13_000);
    expect(second.leadership.isLeading()).toBe(false);
    await engine.clock.advance(8_000);
    expect([first.leadership.isLeading(), second.leadership.isLeading()]).toEqual([false, true]);
    first.connection.weather = "up";
    await engine.clock.advance(10_000);
    expect([first.leadership.isLeading(), second.leadership.isLeading()]).toEqual([false, true]);
  });

  it("is laid down and left to others by a worker that may not lead any more", async () => {
    let mayLead = true;
    const [first, second] = [stand("first", () => mayLead), stand("second")];
    await engine.clock.advance(5_000);
    expect([first.leadership.isLeading(), second.leadership.isLeading()]).toEqual([true, false]);
    mayLead = false;
    await engine.clock.advance(2_500);
    expect([first.leadership.isLeading(), second.leadership.isLeading()]).toEqual([false, true]);
    await second.leadership.stop();
    await engine.clock.advance(20_000);
    expect(first.leadership.isLeading()).toBe(false);
    mayLead = true;
    await engine.clock.advance(2_500);
    expect(first.leadership.isLeading()).toBe(true);
  });

  it("survives a short outage", async () => {
    const { leadership, connection, log } = stand("only");
    await engine.clock.advance(2_000);
    connection.weather = "away";
    await engine.clock.advance(6_000);
    connection.weather = "up";
    await engine.clock.advance(10_000);
    expect(leadership.isLeading()).toBe(true);
    leadership.wake();
    expect(log).toEqual(["only leads", "only wakes"]);
  });
});

describe("the watch over leases", () => {
  const lease = (token: number, leaseCounter: number): LeaseObservation => ({
    jobId: `job-${token}` as JobId,
    token: BigInt(token) as DispatchToken,
    leaseCounter,
  });
  const watch = () => new LeaseWatch({ leaseMs: 60_000, intervalMs: 10_000 });
  const look = (over: LeaseWatch, atMs: number, ...seen: LeaseObservation[]) =>
    over.look(seen, { askedMs: atMs, answeredMs: atMs });

  it("suspects an execution whose counter stood still for a whole lease", () => {
    const over = watch();
    for (let atMs = 0; atMs < 60_000; atMs += 10_000) expect(look(over, atMs, lease(1, 3), lease(2, atMs))).toEqual([]);
    expect(look(over, 60_000, lease(1, 3), lease(2, 60_000))).toEqual([lease(1, 3)]);
  });

  it("counts from the answer of the first look to the question of the last", () => {
    const over = watch();
    over.look([lease(1, 3)], { askedMs: 0, answeredMs: 4_000 });
    for (let atMs = 10_000; atMs <= 60_000; atMs += 10_000) expect(look(over, atMs, lease(1, 3))).toEqual([]);
    expect(look(over, 64_000, lease(1, 3))).toEqual([lease(1, 3)]);
  });

  it("starts over after a look that failed (F22)", () => {
    const over = watch();
    for (let atMs = 0; atMs < 60_000; atMs += 10_000) look(over, atMs, lease(1, 3));
    over.forget();
    expect(look(over, 70_000, lease(1, 3))).toEqual([]);
    for (let atMs = 80_000; atMs < 130_000; atMs += 10_000) expect(look(over, atMs, lease(1, 3))).toEqual([]);
    expect(look(over, 130_000, lease(1, 3))).toEqual([lease(1, 3)]);
  });

  it("starts over after a pause of its own, when others may have been paused with it", () => {
    const over = watch();
    look(over, 0, lease(1, 3));
    expect(look(over, 150_000, lease(1, 3))).toEqual([]);
    expect(look(over, 160_000, lease(1, 3))).toEqual([]);
  });

  it("takes the same job under a new token for a new execution", () => {
    const over = watch();
    for (let atMs = 0; atMs < 60_000; atMs += 10_000) look(over, atMs, lease(1, 0));
    expect(look(over, 60_000, { ...lease(2, 0), jobId: "job-1" as JobId })).toEqual([]);
  });
});

describe("recovery", () => {
  it("takes nothing back after an outage in which nobody could renew", async () => {
    const scripts = {
      work: async (_: unknown, { signal }: { signal: AbortSignal }) => {
        await engine.clock.sleep(50_000, signal);
        return null;
      },
    };
    const machines = [await engine.role({ scripts }), await engine.role({ scripts })];
    const id = await engine.enqueue();
    for (const { connection } of machines) connection.weather = "away";
    await engine.clock.advance(120_000);
    for (const { connection } of machines) connection.weather = "up";
    await engine.clock.advance(20_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", execution: 1, lost: 0 });
  });

  it("starts counting anew after one look that failed (F22)", async () => {
    const machine = engine.machine();
    await engine.enqueue();
    await engine.store.claimJobs({ workerId: machine.id, queue: "default", limit: 1, after: null, exceptTypes: [] });
    const started = startRecovery({
      ...surroundings(),
      store: machine.connection.store,
      leaseMs: 60_000,
      intervalMs: 10_000,
      isLeading: () => true,
    });
    stops.push(started.stop);
    await engine.clock.advance(45_000);
    machine.connection.next.set("observeLeases", ["away"]);
    await engine.clock.advance(60_000);
    expect(kinds(events)).not.toContain("worker-lost");
    await engine.clock.advance(20_000);
    expect(kinds(events)).toContain("worker-lost");
  });

  it("is not moved by jumps of the database's clock (F21)", async () => {
    const scripts = {
      work: async (_: unknown, { signal }: { signal: AbortSignal }) => {
        await engine.clock.sleep(100_000, signal);
        return null;
      },
    };
    await engine.role({ scripts });
    await engine.role({ scripts });
    const id = await engine.enqueue();
    await engine.clock.advance(20_000);
    engine.databaseOffsetMs = 3_600_000;
    await engine.clock.advance(20_000);
    engine.databaseOffsetMs = -3_600_000;
    await engine.clock.advance(80_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", execution: 1, lost: 0 });
  });
});

describe("clean-up", () => {
  it("does each of its works at the start and at its own pace, and one that fails holds up no other", async () => {
    const calls: string[] = [];
    const note = (name: string) => async () => void calls.push(name);
    for (const started of startCleanup({
      ...surroundings(),
      retainWorkersMs: 86_400_000,
      store: {
        preparePartitions: note("prepare"),
        dropExpired: async () => {
          throw new RejectedError("locked", { sqlState: "55P03" });
        },
        foldCounters: note("fold"),
        pruneWorkers: async () => {
          calls.push("prune");
          return 0;
        },
      },
    }))
      stops.push(started.stop);
    await engine.clock.advance(3_600_000);
    const count = (name: string) => calls.filter((call) => call === name).length;
    expect(count("prepare")).toBeGreaterThanOrEqual(59);
    expect(count("prune")).toBeGreaterThanOrEqual(59);
    expect(count("fold")).toBeGreaterThan(3_000);
  });
});

describe("waiting for what is due", () => {
  it("lasts until the next instant, within its bounds, and grows over what cannot be moved on", () => {
    const wait = new DueWait(1_000);
    expect(wait.after({ moved: true, dueInMs: null })).toBe(1_000);
    expect(wait.after({ moved: true, dueInMs: 400 })).toBe(400);
    expect(wait.after({ moved: false, dueInMs: 5_000 })).toBe(1_000);
    const stuck = Array.from({ length: 7 }, () => wait.after({ moved: false, dueInMs: -1 }));
    expect(stuck).toEqual([50, 100, 200, 400, 800, 1_000, 1_000]);
    expect(wait.after({ moved: true, dueInMs: -1 })).toBe(50);
  });
});

describe("claiming ahead", () => {
  it("is for short jobs: what the slots start in 100 ms, at most 2000", () => {
    const pace = new RunPace();
    expect(pace.ahead(8)).toBe(0);
    pace.record(0.01);
    expect(pace.ahead(8)).toBe(2_000);
    const slow = new RunPace();
    slow.record(50);
    expect(slow.ahead(8)).toBe(16);
    slow.record(5_000);
    expect(slow.ahead(8)).toBe(0);
  });

  it("stops when claims had to be given back, and comes back slowly", () => {
    const pace = new RunPace();
    pace.record(1);
    pace.distrust();
    expect(pace.ahead(8)).toBe(0);
    for (let count = 0; count < 20; count++) pace.record(1);
    expect(pace.ahead(8)).toBe(2);
    for (let count = 0; count < 300; count++) pace.record(1);
    expect(pace.ahead(8)).toBeGreaterThan(400);
  });
});
