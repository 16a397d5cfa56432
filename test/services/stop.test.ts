import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { scheduleSpec } from "../contract/definitions.ts";
import { Engine, ignoresAbortFor, kinds, takes } from "./engine.ts";

let engine: Engine;
beforeEach(() => {
  engine = new Engine();
});
afterEach(() => engine.close());

describe("a stopping worker", () => {
  it("takes nothing new, lets what runs end, and says goodbye", async () => {
    const { role, id: workerId } = await engine.role({ scripts: { work: takes(engine.clock, 10_000) } });
    const running = await engine.enqueue();
    await engine.clock.advance(300);
    const stopped = role.stop();
    const late = await engine.enqueue();
    await engine.clock.advance(10_000);
    await stopped;
    expect(engine.job(running).state).toBe("Succeeded");
    expect(engine.job(late).state).toBe("Enqueued");
    expect(engine.database.workers.get(workerId)).toMatchObject({ draining: true });
    expect(engine.database.workers.get(workerId)?.leftAtMs).not.toBeNull();
  });

  it("stops at once when nothing runs", async () => {
    const { role } = await engine.role();
    await engine.clock.advance(5_000);
    const before = engine.clock.monotonicMs();
    const stopped = role.stop().then(() => engine.clock.monotonicMs());
    await engine.clock.advance(30_000);
    expect((await stopped) - before).toBeLessThan(200);
  });

  it("aborts at the end of its patience and gives the job back uncharged, for another to start within seconds (K02)", async () => {
    const { role, host } = await engine.role({
      shutdownTimeoutMs: 5_000,
      scripts: { work: takes(engine.clock, 60_000) },
    });
    const other = await engine.role({ scripts: { work: takes(engine.clock, 60_000) }, concurrency: 1 });
    const [id] = await engine.enqueueMany(1);
    await engine.clock.advance(500);
    expect(host.running.size + other.host.running.size).toBe(1);
    const [leaving, staying] = host.running.size === 1 ? [role, other.host] : [other.role, host];
    const stopping = leaving.stop().then(() => engine.clock.monotonicMs());
    await engine.clock.advance(4_900);
    expect(engine.job(id ?? raise()).state).toBe("Processing");
    await engine.clock.advance(2_000);
    expect(staying.running.size).toBe(leaving === role ? 1 : 0);
    await engine.clock.advance(30_000);
    expect(await stopping).toBeLessThan(10_500);
    expect(engine.job(id ?? raise())).toMatchObject({ failures: 0, lost: 0, execution: leaving === role ? 2 : 1 });
  });

  it("ends a handler that ignores the abort, gives the job back, and is gone before ten seconds (K02)", async () => {
    const { role, host } = await engine.role({
      shutdownTimeoutMs: 5_000,
      scripts: { work: ignoresAbortFor(engine.clock, 600_000) },
    });
    const id = await engine.enqueue();
    await engine.clock.advance(500);
    const startMs = engine.clock.monotonicMs();
    const stopped = role.stop().then(() => engine.clock.monotonicMs());
    await engine.clock.advance(7_000);
    expect(engine.job(id).state).toBe("Processing");
    await engine.clock.advance(30_000);
    expect(host.asked).toEqual(["abort shutdown", "end"]);
    expect((await stopped) - startMs).toBeLessThan(10_000);
    expect(engine.job(id)).toMatchObject({
      state: "Scheduled",
      failures: 0,
      lost: 0,
      returns: 1,
      attempts: ["returned"],
    });
  });

  it("gives back what it claimed ahead, without an attempt", async () => {
    let quick = true;
    const { worker, host } = await engine.worker({
      scripts: { work: (payload, context) => (quick ? null : takes(engine.clock, 2_000)(payload, context)) },
    });
    for (let count = 0; count < 20; count++) await engine.enqueue();
    quick = false;
    const jobs = await engine.enqueueMany(50);
    expect(engine.database.processing.size).toBe(50);
    const stopped = worker.stop();
    await engine.clock.settle();
    expect(engine.database.processing.size).toBe(2);
    await engine.clock.advance(5_000);
    await stopped;
    expect(jobs.filter((id) => engine.job(id).state === "Succeeded")).toHaveLength(2);
    expect(
      jobs.filter((id) => engine.job(id).state === "Scheduled" && engine.job(id).attempts.length === 0),
    ).toHaveLength(48);
    expect(host.runs).toHaveLength(22);
  });

  it("keeps its leases alive to the end", async () => {
    const { role } = await engine.role({ shutdownTimeoutMs: 300_000, scripts: { work: takes(engine.clock, 200_000) } });
    const { events } = await engine.role({ concurrency: 1 });
    const id = await engine.enqueue({ timeoutMs: 600_000 });
    await engine.clock.advance(500);
    const stopped = role.stop();
    await engine.clock.advance(200_000);
    await stopped;
    expect(engine.job(id)).toMatchObject({ state: "Succeeded", execution: 1 });
    expect(kinds(events)).not.toContain("worker-lost");
  });

  it("comes to an end while the database is away, and leaves the rest to recovery", async () => {
    const { role, connection } = await engine.role({
      shutdownTimeoutMs: 2_000,
      scripts: { work: takes(engine.clock, 60_000) },
    });
    await engine.enqueue();
    await engine.clock.advance(500);
    connection.weather = "away";
    const startMs = engine.clock.monotonicMs();
    const stopped = role.stop().then(() => engine.clock.monotonicMs());
    await engine.clock.advance(60_000);
    expect((await stopped) - startMs).toBeLessThan(20_000);
  });

  it("lays down its duties at the signal, so that every minute of a long drain is planned by another (K04)", async () => {
    engine.declareSchedule(
      "minutely",
      scheduleSpec({ job: "work", concurrencyPolicy: "Allow" }),
      new Date(engine.database.nowMs() + 60_000),
    );
    engine.declare({ type: "long", timeoutMs: 3_600_000 });
    const leader = await engine.role({
      shutdownTimeoutMs: 600_000,
      scripts: { long: takes(engine.clock, 580_000) },
      concurrency: 1,
    });
    await engine.clock.advance(2_000);
    await engine.enqueue({ type: "long" });
    await engine.role();
    expect(engine.database.terms.get("scheduling")?.workerId).toBe(leader.id);
    const stopped = leader.role.stop();
    await engine.clock.advance(2_000);
    expect(engine.database.terms.get("scheduling")?.workerId).not.toBe(leader.id);
    await engine.clock.advance(598_000);
    await stopped;
    const fired = engine.database.fires.filter((fire) => fire.outcome === "fired").map((fire) => fire.atMs);
    expect(fired).toHaveLength(10);
    expect(new Set(fired).size).toBe(10);
  });
});

function raise(): never {
  throw new Error("no job was made");
}
