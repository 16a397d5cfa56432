import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createVirtualClock } from "../../runtime/adapters/memory/virtual-clock.ts";
import { Engine, ignoresAbortFor, kinds, takes } from "./engine.ts";

let engine: Engine;
beforeEach(() => {
  engine = new Engine();
});
afterEach(() => engine.close());

describe("while the database is away", () => {
  it("for 90 s under load nothing is lost, nothing is charged and everything goes on", async () => {
    engine.declare({ type: "short" });
    engine.declare({ type: "long" });
    const scripts = {
      short: takes(engine.clock, 300),
      long: takes(engine.clock, 45_000),
      work: takes(engine.clock, 200_000),
    };
    const machines = [await engine.role({ scripts, concurrency: 6 }), await engine.role({ scripts, concurrency: 6 })];
    const jobs = [
      ...(await engine.enqueueMany(4, { type: "long" })),
      ...(await engine.enqueueMany(2, { type: "work" })),
      ...(await engine.enqueueMany(60, { type: "short" })),
    ];
    await engine.clock.advance(2_000);
    for (const { connection } of machines) connection.weather = "away";
    await engine.clock.advance(90_000);
    for (const { connection } of machines) connection.weather = "up";
    await engine.clock.advance(400_000);
    for (const id of jobs) {
      const job = engine.job(id);
      expect(job).toMatchObject({ state: "Succeeded", failures: 0, lost: 0, lostUnstarted: 0, returns: 0 });
      expect(job.attempts.filter((outcome) => outcome === "succeeded")).toHaveLength(1);
    }
    for (const { events } of machines) {
      const worker = events.filter((event) => "loop" in event && event.loop === "worker").map((event) => event.kind);
      expect(worker).toEqual(["database-away", "database-back"]);
      expect(kinds(events)).not.toContain("worker-lost");
    }
  });

  it("the worker asks about once a second and not more", async () => {
    const { connection } = await engine.worker();
    await engine.clock.advance(5_000);
    connection.weather = "away";
    connection.calls.length = 0;
    await engine.clock.advance(60_000);
    expect(connection.calls.length).toBeLessThan(250);
    expect(connection.calls.filter((call) => call === "claimJobs").length).toBeLessThan(100);
  });

  it("the worker presses it no more when it has starts, progress and returns to write", async () => {
    const { connection } = await engine.worker({
      scripts: {
        work: async (payload, context) => {
          context.request.onProgress(10, null);
          return takes(engine.clock, 600_000)(payload, context);
        },
      },
    });
    await engine.enqueueMany(2);
    connection.weather = "away";
    connection.calls.length = 0;
    await engine.clock.advance(40_000);
    expect(connection.calls.length).toBeLessThan(400);
  });

  it("a handler that ended in the outage keeps its result and has it written afterwards", async () => {
    const { connection, host } = await engine.worker({ scripts: { work: takes(engine.clock, 10_000) } });
    const id = await engine.enqueue();
    connection.weather = "away";
    await engine.clock.advance(40_000);
    expect(engine.job(id).state).toBe("Processing");
    connection.weather = "up";
    await engine.clock.advance(3_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", execution: 1 });
    expect(host.runs).toHaveLength(1);
  });

  it("a handler is aborted before its lease ends, and given back without a charge afterwards", async () => {
    const { connection, host, events } = await engine.worker({ scripts: { work: takes(engine.clock, 300_000) } });
    const id = await engine.enqueue();
    connection.weather = "away";
    await engine.clock.advance(60_000);
    expect(host.asked).toEqual(["abort lease-doubtful"]);
    expect(kinds(events)).toContain("lease-doubtful");
    connection.weather = "up";
    await engine.clock.advance(3_000);
    expect(engine.job(id)).toMatchObject({
      state: "Scheduled",
      failures: 0,
      lost: 0,
      returns: 0,
      attempts: ["returned"],
    });
  });
});

describe("an answer of the database that is lost", () => {
  it("after a claim is read back: what it brought goes back, and nothing runs on a guess (F9, F27)", async () => {
    const { connection, host } = await engine.worker();
    engine.doorbell.muted = true;
    const jobs = await engine.enqueueMany(3);
    connection.next.set("claimJobs", ["lost-reply"]);
    await engine.clock.advance(1_400);
    expect(host.runs).toHaveLength(0);
    expect(engine.database.processing.size).toBe(2);
    await engine.clock.advance(1_500);
    expect(connection.calls).toContain("findOwned");
    await engine.store.promoteDue(10);
    await engine.clock.advance(1_500);
    for (const id of jobs)
      expect(engine.job(id)).toMatchObject({
        state: "Succeeded",
        failures: 0,
        lostUnstarted: 0,
        attempts: ["succeeded"],
      });
    expect(host.runs).toHaveLength(3);
  });

  it("after a claim never sends back what another claim brings at the same time", async () => {
    const { connection, host } = await engine.worker({
      settings: {
        queues: [
          { name: "default", concurrency: 2 },
          { name: "reports", concurrency: 2 },
        ],
      },
    });
    engine.doorbell.muted = true;
    connection.next.set("claimJobs", ["lost-reply", "lost-reply"]);
    const jobs = [...(await engine.enqueueMany(30)), ...(await engine.enqueueMany(30, { queue: "reports" }))];
    for (let second = 0; second < 20; second++) {
      await engine.clock.advance(1_000);
      await engine.store.promoteDue(100);
    }
    for (const id of jobs) expect(engine.job(id)).toMatchObject({ state: "Succeeded", attempts: ["succeeded"] });
    expect(host.runs).toHaveLength(60);
  });

  it("for longer than a lease starts nothing: what it brings goes back", async () => {
    const { connection, host, events } = await engine.worker();
    connection.next.set("claimJobs", ["hanging", "hanging"]);
    const id = await engine.enqueue();
    await engine.clock.advance(70_000);
    connection.weather = "up";
    await engine.clock.settle();
    expect(host.runs).toHaveLength(0);
    expect(kinds(events)).not.toContain("job-started");
    expect(engine.job(id)).toMatchObject({ state: "Scheduled", execution: 1, failures: 0, attempts: [] });
  });

  it("after giving claims back changes nothing: they are given back again", async () => {
    const { connection, worker } = await engine.worker({ scripts: { work: takes(engine.clock, 30_000) } });
    engine.declare({ type: "quick" });
    for (let count = 0; count < 10; count++) await engine.enqueue({ type: "quick" });
    await engine.enqueueMany(20);
    connection.next.set("returnClaims", ["lost-reply", "away"]);
    await engine.clock.advance(3_500);
    expect(engine.database.processing.size).toBe(2);
    expect(worker.open).toBe(2);
  });
});

describe("a worker that loses its jobs", () => {
  it("leaves a job alone that runs longer than any threshold while it renews (E01)", async () => {
    engine.declare({ type: "hour", timeoutMs: 3_600_000 });
    await engine.role({ scripts: { hour: takes(engine.clock, 900_000) } });
    await engine.role();
    const id = await engine.enqueue({ type: "hour" });
    await engine.clock.advance(901_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", execution: 1, attempts: ["succeeded"] });
  });

  it("cut off from the database aborts before another starts, and its late write is refused (E03)", async () => {
    const starts: number[] = [];
    const script = async (_payload: unknown, { signal }: { signal: AbortSignal }) => {
      starts.push(engine.clock.monotonicMs());
      await engine.clock.sleep(300_000, signal);
      if (signal.aborted) aborts.push(engine.clock.monotonicMs());
      return null;
    };
    const aborts: number[] = [];
    const cut = await engine.role({ scripts: { work: script } });
    const id = await engine.enqueue({ maxAttempts: 1 });
    await engine.clock.advance(500);
    await engine.role({ scripts: { work: script } });
    cut.connection.weather = "away";
    await engine.clock.advance(130_000);
    expect(starts).toHaveLength(2);
    expect(aborts).toHaveLength(1);
    expect(aborts[0]).toBeLessThanOrEqual(60_500);
    expect(starts[1]).toBeGreaterThan(aborts[0] ?? 0);
    cut.connection.weather = "up";
    await engine.clock.advance(10_000);
    expect(kinds(cut.events)).toContain("fenced");
    expect(engine.job(id)).toMatchObject({ state: "Processing", execution: 2, failures: 0, lost: 1 });
  });

  it("that is paused for 150 s finds its result refused, and says so", async () => {
    const paused = await engine.role({ clock: createVirtualClock(), scripts: { work: takes(engine.clock, 100_000) } });
    await paused.clock.advance(1_000);
    const id = await engine.enqueue();
    await paused.clock.advance(1_000);
    expect(paused.host.runs).toHaveLength(1);
    paused.asleep = true;
    const other = await engine.role({ scripts: { work: takes(engine.clock, 5_000) } });
    await engine.clock.advance(150_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", execution: 2 });
    paused.asleep = false;
    await paused.clock.jump(150_000);
    await engine.clock.advance(1_000);
    expect(kinds(paused.events)).toContain("fenced");
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", execution: 2, attempts: ["lost", "succeeded"] });
    expect(kinds(other.events)).toContain("worker-lost");
    await paused.clock.advance(1_000);
    const stopped = paused.role.stop();
    await paused.clock.advance(60_000);
    await stopped;
  });

  it("by kill has them back within 120 s, each as execution 2 with the loss recorded, though its successor has its name (E17)", async () => {
    const dead = await engine.role({
      clock: createVirtualClock(),
      concurrency: 4,
      scripts: { work: ignoresAbortFor(engine.clock, 1e9) },
    });
    const jobs = await engine.enqueueMany(4);
    await dead.clock.advance(1_000);
    expect(dead.host.running.size).toBe(4);
    dead.asleep = true;
    const successor = await engine.role({ concurrency: 4, scripts: { work: takes(engine.clock, 100) } });
    await engine.clock.advance(120_000);
    for (const id of jobs) {
      expect(engine.job(id)).toMatchObject({
        state: "Succeeded",
        execution: 2,
        failures: 0,
        lost: 1,
        attempts: ["lost", "succeeded"],
      });
    }
    expect(successor.host.runs.every((run) => run.alone)).toBe(true);
    dead.connection.weather = "away";
    const stopped = dead.role.stop();
    await dead.clock.advance(120_000);
    await stopped;
  });

  it("after its handler's last side effect and before the final write runs it once more, then it is over (F06)", async () => {
    const dead = await engine.role({ clock: createVirtualClock() });
    dead.connection.next.set(
      "finishJob",
      Array.from({ length: 1_000 }, () => "away" as const),
    );
    const id = await engine.enqueue();
    await dead.clock.advance(200);
    expect(dead.host.runs).toHaveLength(1);
    dead.asleep = true;
    const other = await engine.role();
    await engine.clock.advance(1_200_000);
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", execution: 2 });
    expect(other.host.runs).toHaveLength(1);
    dead.connection.weather = "away";
    const stopped = dead.role.stop();
    await dead.clock.advance(120_000);
    await stopped;
  });
});
