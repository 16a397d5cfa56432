import { beforeEach, describe, expect, it } from "vitest";
import { countingIds } from "../../runtime/adapters/memory/seeded.ts";
import { createVirtualClock, type VirtualClock } from "../../runtime/adapters/memory/virtual-clock.ts";
import type { DispatchToken } from "../../runtime/core/ids.ts";
import { UnknownOutcomeError } from "../../runtime/protocol/ports/errors.ts";
import type { ClaimedJob, ClaimRequest, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import { ClaimDoubt } from "../../runtime/services/claim-doubt.ts";
import { Claimer } from "../../runtime/services/claimer.ts";
import { createDatabaseWatch } from "../../runtime/services/database-watch.ts";
import { WorkQueue } from "../../runtime/services/work-queue.ts";

interface Call {
  readonly request: ClaimRequest;
  answer(count: number): Promise<void>;
  fail(error: Error): Promise<void>;
}

const ids = countingIds();
let clock: VirtualClock;
let calls: Call[];
let asked: string[];
let received: ClaimedJob[];
let strays: Ownership[];

beforeEach(() => {
  clock = createVirtualClock(1_000_000);
  calls = [];
  asked = [];
  received = [];
  strays = [];
});

function claimer(...queues: WorkQueue[]): Claimer {
  for (const queue of queues) queue.recoveredDueMs = Number.POSITIVE_INFINITY;
  const workerId = ids.workerId();
  const claims = new ClaimDoubt({
    workerId,
    known: () => [],
    watch: createDatabaseWatch("worker", { observe: () => {} }),
    onClear: () => made.pump(),
    store: {
      findOwned: async () => {
        asked.push("findOwned");
        return strays;
      },
      returnClaims: async () => void asked.push("returnClaims"),
    },
  });
  const made: Claimer = new Claimer({
    workerId,
    queues,
    clock,
    claims,
    exceptTypes: () => [],
    onClaimed: (queue, jobs) => {
      received.push(...jobs);
      queue.open += jobs.length;
      for (const _ of jobs) queue.running += 1;
    },
    onWaiting: () => {},
    store: {
      claimJobs: (request) =>
        new Promise((resolve, reject) => {
          const settle = async (act: () => void): Promise<void> => {
            act();
            await clock.settle();
          };
          calls.push({
            request,
            answer: (count) =>
              settle(() => resolve({ jobs: Array.from({ length: count }, claimed), cursor: `c${calls.length}` })),
            fail: (error) => settle(() => reject(error)),
          });
        }),
      claimRecovered: async ({ queue }) => {
        asked.push(`recovered ${queue}`);
        return null;
      },
    },
  });
  return made;
}

function claimed(): ClaimedJob {
  return { id: ids.jobId(), token: 1n as DispatchToken, type: "work", recovered: false } as ClaimedJob;
}

describe("the claimer", () => {
  it("asks for what the free slots take, and for no more while that is under way", async () => {
    const queue = new WorkQueue("default", 4);
    const claiming = claimer(queue);
    claiming.pump();
    claiming.pump();
    expect(calls.map((call) => call.request)).toMatchObject([{ queue: "default", limit: 4, after: null }]);
    await calls[0]?.answer(4);
    expect(calls).toHaveLength(1);
    queue.running = 3;
    claiming.landed(queue);
    expect(calls[1]?.request.limit).toBe(1);
  });

  it("has at most two claims under way, whatever the number of queues", () => {
    claimer(...["a", "b", "c", "d"].map((name) => new WorkQueue(name, 2))).pump();
    expect(calls.map((call) => call.request.queue)).toEqual(["a", "b"]);
  });

  it("serves its queues in turn", async () => {
    const claiming = claimer(...["a", "b", "c"].map((name) => new WorkQueue(name, 2)));
    claiming.pump();
    await calls[0]?.answer(0);
    await calls[1]?.answer(0);
    expect(calls.map((call) => call.request.queue)).toEqual(["a", "b", "c"]);
  });

  it("goes on behind the last claim, and starts over within 100 ms", async () => {
    const queue = new WorkQueue("default", 2);
    const claiming = claimer(queue);
    claiming.pump();
    await calls[0]?.answer(2);
    queue.running = 0;
    claiming.pump();
    expect(calls[1]?.request.after).toBe("c1");
    await calls[1]?.answer(2);
    queue.running = 0;
    await clock.advance(100);
    claiming.pump();
    expect(calls[2]?.request.after).toBeNull();
  });

  it("looks from the start before it takes a queue for empty", async () => {
    const queue = new WorkQueue("default", 2);
    const claiming = claimer(queue);
    claiming.pump();
    await calls[0]?.answer(2);
    queue.running = 0;
    claiming.pump();
    await calls[1]?.answer(0);
    claiming.pump();
    expect(calls).toHaveLength(2);
    await clock.advance(100);
    claiming.pump();
    expect(calls[2]?.request.after).toBeNull();
    await calls[2]?.answer(0);
    await clock.advance(500);
    claiming.pump();
    expect(calls).toHaveLength(3);
  });

  it("looks again when a ring came while a claim was under way that found nothing", async () => {
    const queue = new WorkQueue("default", 2);
    const claiming = claimer(queue);
    claiming.pump();
    claiming.ring(queue);
    expect(calls).toHaveLength(1);
    await calls[0]?.answer(0);
    expect(calls).toHaveLength(2);
  });

  it("looks for strays of a claim of unknown outcome only when no other claim is under way, and claims nothing before", async () => {
    strays = [{ jobId: ids.jobId(), token: 9n as DispatchToken }];
    const claiming = claimer(new WorkQueue("a", 2), new WorkQueue("b", 2));
    claiming.pump();
    await calls[0]?.fail(new UnknownOutcomeError("the connection was lost"));
    claiming.poll();
    claiming.poll();
    await clock.settle();
    expect(asked).toEqual([]);
    expect(calls).toHaveLength(2);
    await calls[1]?.answer(2);
    expect(asked.filter((call) => !call.startsWith("recovered"))).toEqual(["findOwned", "returnClaims"]);
    expect(received).toHaveLength(2);
    expect(calls.length).toBeGreaterThan(2);
  });

  it("asks for recovered jobs with a free slot only", async () => {
    const [free, full] = [new WorkQueue("free", 1), new WorkQueue("full", 1)];
    const claiming = claimer(free, full);
    full.running = 1;
    claiming.poll();
    await clock.settle();
    expect(asked).toEqual(["recovered free"]);
  });

  it("claims nothing after its stop, and says when the last claim is over", async () => {
    const claiming = claimer(new WorkQueue("default", 2));
    claiming.pump();
    let over = false;
    const stopped = claiming.stop().then(() => {
      over = true;
    });
    await clock.settle();
    expect(over).toBe(false);
    await calls[0]?.answer(1);
    await stopped;
    claiming.poll();
    expect(calls).toHaveLength(1);
  });
});
