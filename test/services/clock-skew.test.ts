import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";
import { ClockSkew } from "../../runtime/services/clock-skew.ts";
import { BASE_MS, Engine, kinds } from "./engine.ts";

let engine: Engine;
beforeEach(() => {
  engine = new Engine();
});
afterEach(() => engine.close());

const wallAt = (offsetMs: number) => () => BASE_MS + engine.clock.monotonicMs() + offsetMs;

describe("the skew of a clock", () => {
  function measuring(wallMs: (() => number) | undefined, limitMs = 30_000) {
    const events: EngineEvent[] = [];
    const observer = { observe: (event: EngineEvent) => void events.push(event) };
    const skew = new ClockSkew({ clock: engine.clock, wallMs, limitMs, observer });
    const ask = async (tripMs = 0) => {
      await engine.clock.advance(tripMs / 2);
      const databaseTime = new Date(engine.database.nowMs());
      await engine.clock.advance(tripMs / 2);
      return { databaseTime };
    };
    return { skew, events, ask };
  }

  it("is the database's clock less the process's own, with half of the round trip taken off", async () => {
    const { skew, ask } = measuring(wallAt(-7_000));
    expect(skew.ms).toBeNull();
    await skew.measure(() => ask(4_000));
    expect(skew.ms).toBe(7_000);
    expect(skew.tooLarge).toBe(false);
  });

  it("is too large only when it is so whatever the round trip hides, and tells of it once", async () => {
    let offsetMs = 31_000;
    const { skew, events, ask } = measuring(() => wallAt(offsetMs)());
    await skew.measure(() => ask(4_000));
    expect([skew.ms, skew.tooLarge]).toEqual([-31_000, false]);
    await skew.measure(() => ask());
    await skew.measure(() => ask());
    expect(skew.tooLarge).toBe(true);
    offsetMs = 10;
    await skew.measure(() => ask());
    expect(skew.tooLarge).toBe(false);
    expect(events).toEqual([
      { kind: "clock-skewed", skewMs: -31_000, limitMs: 30_000 },
      { kind: "clock-agrees", skewMs: -10, limitMs: 30_000 },
    ]);
  });

  it("is not taken from an answer that took longer than the limit, or that did not come", async () => {
    const { skew, ask } = measuring(wallAt(0));
    await skew.measure(() => ask());
    await skew.measure(() => ask(62_000));
    await expect(skew.measure(() => Promise.reject(new Error("away")))).rejects.toThrow("away");
    expect(skew.ms).toBe(0);
  });

  it("is not measured without a wall clock", async () => {
    const { skew, ask } = measuring(undefined);
    await skew.measure(() => ask());
    expect(skew.ms).toBeNull();
  });
});

describe("a worker whose clock is far off", () => {
  it("leads nothing, runs jobs all the same, and says by how much with its heartbeat", async () => {
    const { id, events } = await engine.role({ wallMs: wallAt(40_000) });
    await engine.clock.advance(20_000);
    expect(engine.database.workers.get(id)?.condition).toMatchObject({ clockSkewMs: -40_000 });
    expect([...engine.database.terms.keys()]).toEqual([]);
    expect(kinds(events)).toContain("clock-skewed");
    const job = await engine.enqueue();
    expect(engine.job(job).state).toBe("Succeeded");
    const sound = await engine.role({ wallMs: wallAt(2_000) });
    await engine.clock.advance(3_000);
    expect([...engine.database.terms.values()].map(({ workerId }) => workerId)).toEqual([sound.id, sound.id, sound.id]);
  });
});

describe("a worker's readiness", () => {
  it("goes red when the database does not hear it, when leases cannot be renewed, and when it is on its way out", async () => {
    const { role, connection } = await engine.role({
      scripts: { work: async (_, { signal }) => engine.clock.sleep(600_000, signal) },
    });
    await engine.clock.advance(100);
    expect(role.readiness()).toEqual({ database: true, leases: true });
    await engine.enqueue();
    connection.weather = "away";
    await engine.clock.advance(15_000);
    expect(role.readiness()).toEqual({ database: false, leases: false });
    connection.weather = "up";
    await engine.clock.advance(15_000);
    expect(role.readiness()).toEqual({ database: true, leases: true });
    const stopped = role.stop();
    expect(role.readiness().database).toBe(false);
    await engine.clock.advance(120_000);
    await stopped;
  });
});
