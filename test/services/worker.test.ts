import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Script } from "../../runtime/adapters/memory/handler-host.ts";
import { PermanentError, RetryAfter } from "../../runtime/handler.ts";
import { Engine, ignoresAbortFor, kinds, takes } from "./engine.ts";

let engine: Engine;
beforeEach(() => {
  engine = new Engine();
});
afterEach(() => engine.close());

describe("a worker", () => {
  it("runs a job when the doorbell rings and keeps its result", async () => {
    const { events } = await engine.worker({ scripts: { work: (payload) => ({ got: payload }) } });
    const id = await engine.enqueue({ payload: { lote: 7 } });
    expect(engine.job(id)).toMatchObject({
      state: "Succeeded",
      result: { got: { lote: 7 } },
      execution: 1,
      attempts: ["succeeded"],
    });
    expect(kinds(events)).toEqual(["job-started", "job-finished"]);
  });

  it("finds jobs by its poll when every ring is lost", async () => {
    await engine.worker();
    engine.doorbell.muted = true;
    const id = await engine.enqueue();
    expect(engine.job(id).state).toBe("Enqueued");
    await engine.clock.advance(1_300);
    expect(engine.job(id).state).toBe("Succeeded");
  });

  it("runs no more jobs of a queue at once than it has slots", async () => {
    const { host } = await engine.worker({ scripts: { work: takes(engine.clock, 5_000) } });
    for (let count = 0; count < 5; count++) await engine.enqueue();
    expect(host.running.size).toBe(2);
    await engine.clock.advance(5_000);
    expect(host.running.size).toBe(2);
    await engine.clock.advance(15_000);
    expect(host.runs).toHaveLength(5);
  });

  it("does not claim ahead while jobs are long", async () => {
    await engine.worker({ scripts: { work: takes(engine.clock, 5_000) } });
    for (let count = 0; count < 5; count++) await engine.enqueue();
    await engine.clock.advance(7_000);
    expect(engine.database.processing.size).toBe(2);
  });

  it("gives back within a little over a second what it claimed ahead and could not start", async () => {
    let quick = true;
    const { host, connection } = await engine.worker({
      scripts: { work: (payload, context) => (quick ? null : takes(engine.clock, 60_000)(payload, context)) },
    });
    for (let count = 0; count < 20; count++) await engine.enqueue();
    quick = false;
    const jobs = await engine.enqueueMany(50);
    expect(engine.database.processing.size).toBe(50);
    expect(host.running.size).toBe(2);
    await engine.clock.advance(1_200);
    expect(connection.calls).toContain("returnClaims");
    expect(engine.database.processing.size).toBe(2);
    expect(host.running.size).toBe(2);
    const waiting = jobs.map((id) => engine.job(id)).filter((job) => job.state !== "Processing");
    expect(waiting).toHaveLength(48);
    for (const job of waiting) expect(job).toMatchObject({ failures: 0, lost: 0, attempts: [] });
    // What runs now is slower than what ran before: no more is claimed ahead.
    await engine.store.promoteDue(100);
    await engine.clock.advance(200);
    expect(engine.database.processing.size).toBe(2);
  });

  it("follows the fleet's limit of a queue without waiting for its poll", async () => {
    engine.database.queues.set("default", { concurrency: 1, suspended: false });
    const { host } = await engine.worker({ scripts: { work: takes(engine.clock, 10) } });
    for (let count = 0; count < 20; count++) await engine.enqueue();
    await engine.clock.advance(250);
    expect(host.runs.length).toBe(20);
  });

  it("finds a more urgent job within 100 ms though its claims go on behind it", async () => {
    const order: unknown[] = [];
    await engine.worker({
      settings: { queues: [{ name: "default", concurrency: 1 }] },
      scripts: {
        work: async (payload, { signal }) => {
          order.push(payload);
          await engine.clock.sleep(40, signal);
          return null;
        },
      },
    });
    for (let count = 0; count < 30; count++) await engine.enqueue({ payload: count });
    await engine.clock.advance(200);
    engine.doorbell.muted = true;
    await engine.enqueue({ payload: "urgent", priority: 100 });
    const before = order.length;
    await engine.clock.advance(400);
    expect(order.indexOf("urgent")).toBeGreaterThan(0);
    expect(order.indexOf("urgent") - before).toBeLessThanOrEqual(7);
  });

  it("refuses a payload that does not fit the schema of now, for good and without running it", async () => {
    const { host } = await engine.worker({ checkPayload: () => "/lote must be number" });
    const id = await engine.enqueue();
    expect(engine.job(id)).toMatchObject({ state: "Failed", failures: 1 });
    expect(engine.job(id).error).toContain("/lote must be number");
    expect(host.runs).toHaveLength(0);
  });

  it("retries a failure by the policy until the attempts are used up, then makes a dead letter", async () => {
    await engine.worker({
      scripts: {
        work: () => {
          throw new Error("boom");
        },
      },
    });
    const id = await engine.enqueue({ maxAttempts: 2 });
    expect(engine.job(id)).toMatchObject({ state: "Scheduled", failures: 1, error: "boom" });
    expect(engine.job(id).dueInMs).toBeGreaterThanOrEqual(12_000);
    expect(engine.job(id).dueInMs).toBeLessThanOrEqual(15_000);
    await engine.clock.advance(15_000);
    await engine.store.promoteDue(10);
    await engine.clock.settle();
    expect(engine.job(id)).toMatchObject({ state: "Failed", failures: 2, attempts: ["failed", "failed"] });
    expect(engine.database.deadLetters).toMatchObject([{ jobId: id, error: "boom" }]);
  });

  it("does not retry a PermanentError, and waits as long as a RetryAfter asks within the policy", async () => {
    engine.declare({ type: "permanent" });
    engine.declare({ type: "later" });
    await engine.worker({
      scripts: {
        permanent: () => {
          throw new PermanentError("never");
        },
        later: () => {
          throw new RetryAfter(120_000);
        },
      },
    });
    const permanent = await engine.enqueue({ type: "permanent" });
    const later = await engine.enqueue({ type: "later" });
    expect(engine.job(permanent)).toMatchObject({ state: "Failed", failures: 1, error: "PermanentError: never" });
    expect(engine.job(later)).toMatchObject({ state: "Scheduled", dueInMs: 120_000 });
  });

  it("writes the start and the progress of a job that runs on, together with others", async () => {
    const { connection } = await engine.worker({
      scripts: {
        work: async (_payload, { request, signal }) => {
          request.onProgress(40, "two of five");
          await engine.clock.sleep(3_000, signal);
          return null;
        },
      },
    });
    const ids = [await engine.enqueue(), await engine.enqueue()];
    await engine.clock.advance(1_000);
    for (const id of ids) expect(engine.job(id)).toMatchObject({ state: "Processing", started: true, progress: 40 });
    expect(connection.calls.filter((call) => call === "markStarted")).toHaveLength(1);
    expect(connection.calls.filter((call) => call === "reportProgress")).toHaveLength(1);
  });

  it("writes no start for a job that is over at once", async () => {
    const { connection } = await engine.worker();
    await engine.enqueue();
    await engine.clock.advance(2_000);
    expect(connection.calls).not.toContain("markStarted");
  });

  it("holds a job whose handler cannot be loaded here, says so at once and leaves its type to others", async () => {
    const { host, connection } = await engine.role();
    host.unloadable.add("sha256:work");
    const first = await engine.enqueue();
    expect(engine.job(first)).toMatchObject({ state: "Scheduled", hold: "no-handler", failures: 0, attempts: [] });
    expect(connection.calls.filter((call) => call === "heartbeat").length).toBe(2);
    await engine.enqueue();
    await engine.enqueue();
    const other = await engine.worker();
    await engine.clock.advance(3_000);
    expect(other.host.runs.length).toBe(3);
  });

  it("runs held jobs after all once a revision came and their handler loads here", async () => {
    const { host } = await engine.role();
    host.unloadable.add("sha256:work");
    const id = await engine.enqueue();
    await engine.clock.advance(20_000);
    expect(engine.job(id)).toMatchObject({ state: "Scheduled", hold: "no-handler" });
    host.unloadable.clear();
    engine.doorbell.ring({ kind: "revision" });
    await engine.clock.advance(10_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", failures: 0 });
  });

  it("runs a job alone that was lost before", async () => {
    const { host } = await engine.worker();
    const id = await engine.enqueue({ due: { afterMs: 1_000 } });
    const row = engine.database.jobs.get(id);
    if (row !== undefined) row.lost = 1;
    await engine.clock.advance(1_000);
    await engine.store.promoteDue(1);
    await engine.clock.settle();
    expect(host.runs.map((run) => run.alone)).toEqual([true]);
  });

  it("survives a host that throws and a check that throws", async () => {
    let broken = true;
    await engine.worker({
      checkPayload: () => {
        if (broken) throw new Error("the schema does not compile");
        return null;
      },
    });
    const first = await engine.enqueue();
    expect(engine.job(first)).toMatchObject({ state: "Scheduled", failures: 1 });
    expect(engine.job(first).error).toContain("the schema does not compile");
    broken = false;
    expect(engine.job(await engine.enqueue()).state).toBe("Succeeded");
  });
});

describe("a time-out (E19)", () => {
  it("aborts, refuses the late result, and frees the slot only when the handler has ended or was cut off", async () => {
    engine.declare({ type: "deaf", timeoutMs: 10_000 });
    const { host, events, worker } = await engine.worker({
      settings: { queues: [{ name: "default", concurrency: 1 }] },
      scripts: { deaf: ignoresAbortFor(engine.clock, 300_000) },
    });
    const id = await engine.enqueue({ type: "deaf", maxAttempts: 3 });
    await engine.enqueue();
    await engine.clock.advance(10_100);
    expect(host.asked).toEqual(["abort time-out"]);
    expect(engine.job(id).state).toBe("Processing");
    expect(host.runs).toHaveLength(1);
    await engine.clock.advance(5_100);
    expect(host.asked).toEqual(["abort time-out", "end"]);
    expect(events).toContainEqual({ kind: "handler-stuck", jobId: id, type: "deaf", reason: "time-out" });
    expect(worker.condition()).toEqual({ handlersCutOff: 1, handlersStuck: 0, leasesFailing: false });
    expect(engine.job(id)).toMatchObject({ state: "Scheduled", failures: 1, attempts: ["timed-out"] });
    expect(host.runs).toHaveLength(2);
    await engine.clock.advance(300_000);
    expect(engine.job(id)).toMatchObject({ failures: 1, result: null });
  });

  it("is told of, once and loudly, while a handler runs on that cannot even be ended", async () => {
    engine.declare({ type: "deaf", timeoutMs: 10_000 });
    const { host, events, worker } = await engine.worker({
      scripts: { deaf: ignoresAbortFor(engine.clock, 100_000) },
    });
    // As an inline handler, or a thread in a system call.
    const start = host.run;
    host.run = (request) => ({ ...start(request), end: () => {} });
    const id = await engine.enqueue({ type: "deaf" });
    await engine.clock.advance(24_000);
    expect(worker.condition()).toMatchObject({ handlersCutOff: 1, handlersStuck: 0 });
    await engine.clock.advance(30_000);
    expect(worker.condition()).toMatchObject({ handlersCutOff: 1, handlersStuck: 1 });
    const told = events.filter(({ kind }) => kind === "handler-runs-on");
    expect(told).toMatchObject([{ jobId: id, type: "deaf" }]);
    expect(engine.job(id).state).toBe("Processing");
    await engine.clock.advance(60_000);
    expect(worker.condition()).toMatchObject({ handlersCutOff: 1, handlersStuck: 0 });
    expect(engine.job(id)).toMatchObject({ failures: 1, attempts: ["timed-out"] });
  });

  it("counts one failure for a handler that stops when it is asked to", async () => {
    engine.declare({ type: "polite", timeoutMs: 10_000 });
    const { host } = await engine.worker({ scripts: { polite: takes(engine.clock, 60_000) } });
    const id = await engine.enqueue({ type: "polite" });
    await engine.clock.advance(11_000);
    expect(host.asked).toEqual(["abort time-out"]);
    expect(engine.job(id)).toMatchObject({ state: "Scheduled", failures: 1, error: "timed out after 10000 ms" });
  });

  it("is the job's own when it has one", async () => {
    await engine.worker({ scripts: { work: takes(engine.clock, 60_000) } });
    const id = await engine.enqueue({ timeoutMs: 1_000 });
    await engine.clock.advance(1_200);
    expect(engine.job(id)).toMatchObject({ failures: 1, attempts: ["timed-out"] });
  });
});

describe("a suspected job", () => {
  it.each([
    ["lost with its worker after its start", { lost: 1 }, "lost"],
    ["lost twenty times before any start", { lostUnstarted: 20 }, "lost-unstarted"],
    ["given back twenty times", { returns: 20 }, "returned"],
  ] as const)("runs alone in a process of its own, with a warning, when it was %s", async (_, counters, reason) => {
    const id = await engine.enqueue();
    const innocent = await engine.enqueue();
    Object.assign(engine.database.jobs.get(id) ?? {}, counters);
    const { host, events } = await engine.worker();
    await engine.clock.advance(1_300);
    expect(host.runs.map(({ job, alone }) => [job.id, alone])).toEqual([
      [id, true],
      [innocent, false],
    ]);
    expect(events.filter(({ kind }) => kind === "job-alone")).toEqual([
      { kind: "job-alone", jobId: id, type: "work", reason },
    ]);
  });
});

describe("a snooze", () => {
  it("runs the job again after its time, as the same attempt, as often as the handler likes", async () => {
    let calls = 0;
    const script: Script = (_payload, ctx) => (++calls < 4 ? ctx.snooze(60_000) : "done");
    await engine.role({ scripts: { work: script } });
    const id = await engine.enqueue({ maxAttempts: 1 });
    expect(engine.job(id)).toMatchObject({ state: "Scheduled", failures: 0, attempts: ["snoozed"] });
    await engine.clock.advance(59_000);
    expect(calls).toBe(1);
    await engine.clock.advance(2_500);
    expect(calls).toBe(2);
    await engine.clock.advance(130_000);
    expect(engine.job(id)).toMatchObject({
      state: "Succeeded",
      execution: 4,
      failures: 0,
      attempts: ["snoozed", "snoozed", "snoozed", "succeeded"],
    });
  });

  it("ends Cancelled after a cancel request", async () => {
    const script: Script = async (_payload, ctx) => {
      await engine.clock.sleep(5_000, ctx.signal);
      return ctx.snooze(60_000);
    };
    await engine.worker({ scripts: { work: script } });
    const id = await engine.enqueue();
    expect(await engine.store.cancelJob(id)).toEqual({ kind: "requested" });
    await engine.clock.advance(100);
    expect(engine.job(id)).toMatchObject({ state: "Cancelled", attempts: ["cancelled"] });
  });
});

describe("a cancel request", () => {
  it("reaches the handler at once by the doorbell, and its throw ends Cancelled", async () => {
    const { host } = await engine.worker({ scripts: { work: takes(engine.clock, 60_000) } });
    const id = await engine.enqueue();
    expect(await engine.store.cancelJob(id)).toEqual({ kind: "requested" });
    await engine.clock.advance(100);
    expect(host.asked).toEqual(["abort cancelled"]);
    expect(engine.job(id)).toMatchObject({ state: "Cancelled", failures: 0, attempts: ["cancelled"] });
  });

  it("reaches the handler with the next renewal when the ring is lost (J03)", async () => {
    const { host } = await engine.worker({ scripts: { work: takes(engine.clock, 60_000) } });
    const id = await engine.enqueue();
    engine.doorbell.muted = true;
    await engine.store.cancelJob(id);
    await engine.clock.advance(10_200);
    expect(host.asked).toEqual(["abort cancelled"]);
    expect(engine.job(id).state).toBe("Cancelled");
  });

  it("leaves a success that comes after it a success (J01)", async () => {
    const { events } = await engine.worker({ scripts: { work: ignoresAbortFor(engine.clock, 3_000) } });
    const id = await engine.enqueue();
    await engine.clock.advance(1_000);
    expect(await engine.store.cancelJob(id)).toEqual({ kind: "requested" });
    await engine.clock.advance(2_500);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", attempts: ["succeeded"] });
    expect(events.filter((event) => event.kind === "job-finished")).toHaveLength(1);
  });

  it("cuts off a handler that ignores it and ends Cancelled", async () => {
    const { host } = await engine.worker({ scripts: { work: ignoresAbortFor(engine.clock, 600_000) } });
    const id = await engine.enqueue();
    await engine.store.cancelJob(id);
    await engine.clock.advance(6_000);
    expect(host.asked).toEqual(["abort cancelled", "end"]);
    expect(engine.job(id)).toMatchObject({ state: "Cancelled", failures: 0 });
  });

  it("ends a job that is claimed and waits before it starts", async () => {
    let quick = true;
    const { host } = await engine.worker({
      settings: { queues: [{ name: "default", concurrency: 1 }] },
      scripts: { work: (payload, context) => (quick ? null : takes(engine.clock, 600)(payload, context)) },
    });
    for (let count = 0; count < 20; count++) await engine.enqueue();
    quick = false;
    const [running, waiting] = await engine.enqueueMany(2);
    if (running === undefined || waiting === undefined) throw new Error("nothing was made");
    expect(engine.job(waiting).state).toBe("Processing");
    expect(await engine.store.cancelJob(waiting)).toEqual({ kind: "requested" });
    await engine.clock.advance(1_500);
    expect(engine.job(running).state).toBe("Succeeded");
    expect(engine.job(waiting)).toMatchObject({ state: "Cancelled", attempts: [] });
    expect(host.runs).toHaveLength(21);
  });

  it("and the end of the job give one state that fits the answer, in whatever order they come (J05)", async () => {
    let random = 1;
    const next = (): number => (random = (random * 48_271) % 2_147_483_647) / 2_147_483_647;
    await engine.worker({
      settings: { queues: [{ name: "default", concurrency: 50 }] },
      scripts: {
        work: async (payload, { signal }) => {
          await engine.clock.sleep(Number(payload) * 50, signal);
          if (signal.aborted) throw new Error("aborted");
          return null;
        },
      },
    });
    for (let round = 0; round < 20; round++) {
      const jobs = [];
      for (let count = 0; count < 50; count++) jobs.push(await engine.enqueue({ payload: next() }));
      const answers = jobs.map(async (id) => {
        await engine.clock.sleep(next() * 50, new AbortController().signal);
        return { id, answer: await engine.store.cancelJob(id) };
      });
      await engine.clock.advance(400);
      for (const { id, answer } of await Promise.all(answers)) {
        const { state } = engine.job(id);
        expect(["Succeeded", "Cancelled"]).toContain(state);
        if (answer.kind === "finished") expect(answer.state).toBe(state);
        if (answer.kind === "cancelled") expect(state).toBe("Cancelled");
      }
    }
  });
});
