import { beforeEach, describe, expect, it } from "vitest";
import { createVirtualClock, type VirtualClock } from "../../runtime/adapters/memory/virtual-clock.ts";
import type { DispatchToken, JobId, WorkerId } from "../../runtime/core/ids.ts";
import { Execution } from "../../runtime/protocol/execution.ts";
import { Leases } from "../../runtime/protocol/leases.ts";
import type { ClaimedJob } from "../../runtime/protocol/ports/jobs.ts";
import type { LeaseStore, Renewal } from "../../runtime/protocol/ports/leases.ts";
import type { EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";

type Pairs = Parameters<LeaseStore["renewLeases"]>[1];

let clock: VirtualClock;
let events: EngineEvent[];
let asked: Pairs[];
let dropped: Execution[];
let answer: (pairs: Pairs) => Promise<Renewal>;
let leases: Leases;

beforeEach(() => {
  clock = createVirtualClock();
  events = [];
  asked = [];
  dropped = [];
  answer = (pairs) => Promise.resolve(renewedAll(pairs));
  leases = new Leases({
    store: {
      renewLeases: (_workerId, pairs) => {
        asked.push(pairs);
        return answer(pairs);
      },
    },
    workerId: "w" as WorkerId,
    clock,
    observer: { observe: (event) => void events.push(event) },
    settings: { leaseMs: 60_000, renewalMs: 10_000 },
    onDropped: (execution) => void dropped.push(execution),
  });
});

function renewedAll(pairs: Pairs, cancelRequested = false): Renewal {
  return { renewed: pairs.map(({ jobId, token }) => ({ jobId, token, cancelRequested })), lost: [], skipped: [] };
}

function execution(token: number, phase: Execution["phase"] = "running"): Execution {
  const job = {
    id: `job-${token}` as JobId,
    token: BigInt(token) as DispatchToken,
    type: "work",
    recovered: false,
  } as ClaimedJob;
  const made = new Execution(job, clock.monotonicMs());
  made.phase = phase;
  if (phase === "running") made.startedMs = clock.monotonicMs();
  leases.hold(made);
  return made;
}

/** Ticks once a second, as the worker's sweep does at least. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1_000) {
    await clock.advance(1_000);
    void leases.tick();
    await clock.settle();
  }
}

describe("leases", () => {
  it("are renewed together every ten seconds, by explicit pairs with how long each has run", async () => {
    execution(1);
    execution(2, "waiting");
    await pass(10_000);
    expect(asked).toEqual([
      [
        { jobId: "job-1", token: 1n, runningMs: 10_000 },
        { jobId: "job-2", token: 2n, runningMs: null },
      ],
    ]);
    await pass(20_000);
    expect(asked).toHaveLength(3);
  });

  it("tell handlers that can outlive this process with each renewal until when they may run, which is before anybody else may", async () => {
    const told: number[] = [];
    const held = execution(1);
    expect(leases.keepUntilMs(held)).toBe(58_500);
    held.run = { outcome: new Promise(() => {}), abort: () => {}, end: () => {}, keepUntil: (ms) => told.push(ms) };
    answer = async (pairs) => {
      await clock.sleep(1_500, new AbortController().signal);
      return renewedAll(pairs);
    };
    await pass(22_000);
    expect(told).toEqual([10_000 + 58_500, 20_000 + 58_500]);
    answer = () => Promise.reject(new Error("away"));
    await pass(60_000);
    expect(told).toHaveLength(2);
    expect(held.abortReason).toBe("lease-doubtful");
  });

  it("are not renewed for what is no longer owned, and nothing is asked when nothing is", async () => {
    const first = execution(1);
    leases.release(first);
    await pass(30_000);
    expect(asked).toEqual([]);
  });

  it("have never two renewals under way, and a hanging one makes them doubtful in time", async () => {
    const held = execution(1);
    answer = () => new Promise(() => {});
    await pass(50_000);
    expect(asked).toHaveLength(1);
    expect(leases.failing).toBe(true);
    expect(held.abortReason).toBeNull();
    await pass(10_000);
    expect(held.abortReason).toBe("lease-doubtful");
  });

  it("say once that they cannot be renewed, and once that they are again", async () => {
    const held = execution(1);
    answer = () => Promise.reject(new Error("away"));
    await pass(13_000);
    expect(leases.failing).toBe(true);
    answer = (pairs) => Promise.resolve(renewedAll(pairs));
    await pass(2_000);
    expect(leases.failing).toBe(false);
    expect(events).toEqual([
      { kind: "leases-failing", held: 1, message: "away" },
      { kind: "leases-renewed", held: 1 },
    ]);
    answer = () => Promise.reject(new Error("away"));
    await pass(11_000);
    expect(leases.failing).toBe(true);
    leases.release(held);
    await pass(11_000);
    expect(leases.failing).toBe(false);
  });

  it("are tried again a second after a failure", async () => {
    execution(1);
    answer = () => Promise.reject(new Error("away"));
    await pass(13_000);
    expect(asked.length).toBeGreaterThanOrEqual(3);
    answer = (pairs) => Promise.resolve(renewedAll(pairs));
    await pass(1_000);
    const { length } = asked;
    await pass(5_000);
    expect(asked).toHaveLength(length);
  });

  it("are doubtful no later than their length after the last successful renewal was sent (E03)", async () => {
    const held = execution(1);
    // The answer takes 2 s: the deadline counts from the question all the same.
    answer = async (pairs) => {
      await clock.sleep(2_000, new AbortController().signal);
      return renewedAll(pairs);
    };
    await pass(13_000);
    expect(held.confirmedMs).toBe(10_000);
    answer = () => Promise.reject(new Error("away"));
    await pass(70_000);
    expect(held.abortedMs).toBeGreaterThan(60_000);
    expect(held.abortedMs).toBeLessThanOrEqual(70_000);
    expect(events).toMatchObject([{ kind: "leases-failing" }, { kind: "lease-doubtful", jobId: "job-1" }]);
  });

  it("make a paused process doubt before it does anything else (F23)", async () => {
    const held = execution(1);
    await clock.jump(150_000);
    expect(leases.isCertain(held, clock.monotonicMs())).toBe(false);
    void leases.tick();
    expect(held.abortReason).toBe("lease-doubtful");
  });

  it("that are lost abort what runs and drop what waits", async () => {
    const [running, waiting] = [execution(1), execution(2, "waiting")];
    answer = (pairs) => Promise.resolve({ renewed: [], lost: pairs, skipped: [] });
    await pass(10_000);
    expect(running.abortReason).toBe("lease-lost");
    expect(waiting.phase).toBe("over");
    expect(dropped).toEqual([waiting]);
    expect(events.map((event) => event.kind)).toEqual(["lease-lost", "lease-lost"]);
    await pass(10_000);
    expect(asked).toHaveLength(1);
  });

  it("are not called lost when the final write of the execution was faster than the answer", async () => {
    const finishing = execution(1);
    answer = async (pairs) => {
      finishing.phase = "finishing";
      return { renewed: [], lost: pairs, skipped: [] };
    };
    await pass(10_000);
    expect(events).toEqual([]);
    expect(finishing.abortReason).toBeNull();
  });

  it("that were skipped are asked for again a second later", async () => {
    execution(1);
    answer = (pairs) => Promise.resolve({ renewed: [], lost: [], skipped: pairs });
    await pass(10_000);
    answer = (pairs) => Promise.resolve(renewedAll(pairs));
    await pass(1_000);
    expect(asked).toHaveLength(2);
  });

  it("carry cancel requests", async () => {
    const held = execution(1);
    answer = (pairs) => Promise.resolve(renewedAll(pairs, true));
    await pass(10_000);
    expect(held.abortReason).toBe("cancelled");
  });

  it("keep two executions of one job apart by their tokens (F26)", async () => {
    const [old, current] = [execution(1), execution(2)];
    answer = ([first, second]) =>
      Promise.resolve({
        renewed: second === undefined ? [] : [{ ...second, cancelRequested: false }],
        lost: first === undefined ? [] : [first],
        skipped: [],
      });
    await pass(10_000);
    expect(old.abortReason).toBe("lease-lost");
    expect(current.abortReason).toBeNull();
  });
});
