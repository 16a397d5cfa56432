import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { RejectedError } from "../../runtime/protocol/ports/errors.ts";
import type { ScheduleStep } from "../../runtime/protocol/ports/schedules.ts";
import { startScheduler } from "../../runtime/services/scheduler.ts";
import type { Loop } from "../../runtime/services/supervised-loop.ts";
import { scheduleSpec } from "../contract/definitions.ts";
import { BASE_MS, Engine, type Machine, takes } from "./engine.ts";

let engine: Engine;
const loops: Loop[] = [];
beforeEach(() => {
  engine = new Engine();
});
afterEach(async () => {
  await Promise.all(loops.splice(0).map((loop) => loop.stop()));
  await engine.close();
});

const spec = scheduleSpec({ job: "work" });
const at = (text: string): Date => new Date(`2026-01-05T${text}Z`);
const MINUTE_MS = 60_000;

function scheduler(options: Partial<Parameters<typeof startScheduler>[0]> = {}): Machine {
  const machine = engine.machine();
  loops.push(
    startScheduler({
      store: machine.connection.store,
      ids: engine.ids,
      clock: engine.clock,
      random: seededRandom(3),
      observer: { observe: (event) => void machine.events.push(event) },
      intervalMs: 2_000,
      batchSize: 200,
      ...options,
    }),
  );
  return machine;
}

function fires(name: string, outcome = "fired"): string[] {
  return engine.database.fires
    .filter((fire) => fire.schedule === name && fire.outcome === outcome)
    .map((fire) => new Date(fire.atMs).toISOString().slice(11, 19));
}

describe("the scheduler", () => {
  it("fires at the instant and moves on", async () => {
    engine.declareSchedule("minutely", spec, at("12:01:00"));
    scheduler();
    await engine.clock.advance(59_999);
    expect(fires("minutely")).toEqual([]);
    await engine.clock.advance(1);
    expect(fires("minutely")).toEqual(["12:01:00"]);
    expect(engine.database.schedules.get("minutely")?.nextFireAtMs).toBe(at("12:02:00").getTime());
  });

  it("works off everything that is due in one round, in batches", async () => {
    for (let index = 0; index < 25; index++) engine.declareSchedule(`s${index}`, spec, at("12:00:00"));
    scheduler({ batchSize: 4 });
    await engine.clock.settle();
    expect(engine.database.fires.filter((fire) => fire.outcome === "fired")).toHaveLength(25);
  });

  it("isolates a schedule that cannot be decided, says so once a minute, and fires the others", async () => {
    for (let index = 0; index < 5; index++)
      engine.declareSchedule(
        `broken${index}`,
        { ...spec, timing: { kind: "cron", expression: "61 * * * *", timeZone: "UTC" } },
        at("11:00:00"),
      );
    engine.declareSchedule("sound", { ...spec, concurrencyPolicy: "Allow" }, at("12:00:00"));
    const { events } = scheduler({ batchSize: 2 });
    await engine.clock.advance(100);
    expect(fires("sound")).toEqual(["12:00:00"]);
    expect(events.filter((event) => event.kind === "schedule-broken")).toHaveLength(5);
    await engine.clock.advance(61_000);
    expect(fires("sound")).toEqual(["12:00:00", "12:01:00"]);
  });

  it("finds the schedule that the database refuses among many, and fires the others", async () => {
    engine.declareSchedule("refused", spec, at("12:00:00"));
    engine.declareSchedule("sound", spec, at("12:00:00"));
    const applySteps = (steps: readonly ScheduleStep[]) =>
      steps.some((step) => step.name === "refused")
        ? Promise.reject(new RejectedError("invalid input", { sqlState: "22P02" }))
        : engine.store.applySteps(steps);
    const { events } = scheduler({ store: { ...engine.store, applySteps } });
    await engine.clock.settle();
    expect(fires("sound")).toEqual(["12:00:00"]);
    expect(events).toContainEqual(expect.objectContaining({ kind: "schedule-broken", schedule: "refused" }));
  });

  it("does not spin on what stays due", async () => {
    engine.declareSchedule(
      "broken",
      { ...spec, timing: { kind: "cron", expression: "61 * * * *", timeZone: "UTC" } },
      at("11:00:00"),
    );
    const { connection } = scheduler();
    await engine.clock.advance(60_000);
    expect(connection.calls.filter((call) => call === "loadDueSchedules").length).toBeLessThan(80);
  });

  it("keeps count of every instant that it did not run, also of those that are too many to name", async () => {
    engine.declareSchedule("minutely", spec, at("12:01:00"));
    engine.databaseOffsetMs = 120 * 60_000;
    await engine.role();
    await engine.clock.advance(1_000);
    expect(fires("minutely", "fired")).toHaveLength(1);
    expect(fires("minutely", "superseded")).toHaveLength(50);
    expect(engine.database.fires.reduce((sum, { olderSkips }) => sum + olderSkips, 50)).toBe(119);
  });

  it("survives an outage and fires the newest instant that it missed", async () => {
    engine.declareSchedule("minutely", { ...spec, concurrencyPolicy: "Allow" }, at("12:01:00"));
    const { connection } = scheduler();
    await engine.clock.advance(MINUTE_MS);
    connection.weather = "away";
    await engine.clock.advance(5 * MINUTE_MS + 30_000);
    connection.weather = "up";
    await engine.clock.advance(10_000);
    expect(fires("minutely")).toEqual(["12:01:00", "12:06:00"]);
    expect(fires("minutely", "superseded")).toEqual(["12:02:00", "12:03:00", "12:04:00", "12:05:00"]);
  });

  it("decides by the database's clock: false hours of its own host fire nothing, and a step back of it delays nothing (F04)", async () => {
    engine.declareSchedule("minutely", { ...spec, concurrencyPolicy: "Allow" }, at("12:01:00"));
    scheduler();
    await engine.clock.advance(3 * MINUTE_MS);
    engine.databaseOffsetMs = -2 * MINUTE_MS;
    await engine.clock.advance(2 * MINUTE_MS - 1_000);
    expect(fires("minutely")).toEqual(["12:01:00", "12:02:00", "12:03:00"]);
    await engine.clock.advance(MINUTE_MS + 2_000);
    expect(fires("minutely")).toEqual(["12:01:00", "12:02:00", "12:03:00", "12:04:00"]);
  });

  it("fires an instant once though two run at the same time (F51)", async () => {
    engine.declareSchedule("minutely", { ...spec, concurrencyPolicy: "Allow" }, at("12:01:00"));
    scheduler();
    scheduler();
    await engine.clock.advance(5 * MINUTE_MS);
    expect(fires("minutely")).toEqual(["12:01:00", "12:02:00", "12:03:00", "12:04:00", "12:05:00"]);
  });

  it("that was paused across an edit does not fire the old rule (F53, B11)", async () => {
    engine.declareSchedule("edited", spec, at("12:01:00"));
    const stale = scheduler();
    const applied: (() => void)[] = [];
    const held: typeof engine.store.applySteps = async (steps) => {
      await new Promise<void>((resume) => applied.push(resume));
      return engine.store.applySteps(steps);
    };
    await Promise.all(loops.splice(0).map((loop) => loop.stop()));
    scheduler({ store: { ...stale.connection.store, applySteps: held } });
    await engine.clock.advance(MINUTE_MS);
    const schedule = engine.database.schedules.get("edited");
    Object.assign(schedule ?? {}, { timingHash: "t2", nextFireAtMs: at("12:30:00").getTime() });
    for (const resume of applied) resume();
    await engine.clock.advance(1_000);
    expect(fires("edited")).toEqual([]);
    expect(schedule?.nextFireAtMs).toBe(at("12:30:00").getTime());
  });
});

describe("schedules in a running installation", () => {
  it("owe nothing for the time they were paused (B07)", async () => {
    engine.declareSchedule("minutely", spec, at("12:01:00"));
    await engine.role({ scripts: { work: takes(engine.clock, 20_000) } });
    const schedule = engine.database.schedules.get("minutely");
    if (schedule === undefined) throw new Error("not declared");
    await engine.clock.advance(90_000);
    schedule.spec = { ...spec, suspend: true };
    await engine.clock.advance(100_000);
    // Lifting a pause sets the first fire strictly after it, as an apply does.
    schedule.spec = spec;
    schedule.nextFireAtMs = at("12:04:00").getTime();
    await engine.clock.advance(49_000);
    expect(fires("minutely")).toEqual(["12:01:00"]);
    await engine.clock.advance(2_000);
    expect(fires("minutely")).toEqual(["12:01:00", "12:04:00"]);
  });

  it("fire once for a tick between two leaders, also without catch-up (B09)", async () => {
    engine.declareSchedule("daily", { ...spec, misfirePolicy: "none" }, at("12:01:00"));
    const leader = await engine.role();
    const next = await engine.role();
    await engine.clock.advance(59_990);
    const stopped = leader.role.stop();
    await engine.clock.advance(5_000);
    await stopped;
    expect(engine.database.terms.get("scheduling")?.workerId).toBe(next.id);
    expect(fires("daily")).toEqual(["12:01:00"]);
  });

  it("do not pile up under Forbid while nobody works: one waits and the skips are recorded (B13)", async () => {
    engine.declareSchedule("forbid", spec, at("12:01:00"));
    engine.declareSchedule("allow", { ...spec, concurrencyPolicy: "Allow" }, at("12:01:00"));
    scheduler();
    await engine.clock.advance(30 * MINUTE_MS);
    expect(fires("forbid")).toHaveLength(1);
    expect(fires("forbid", "overlapped")).toHaveLength(29);
    expect(fires("allow")).toHaveLength(30);
    const blocked = engine.database.fires.filter((fire) => fire.outcome === "overlapped");
    expect(new Set(blocked.map((fire) => fire.blockedBy)).size).toBe(1);
  });

  it("that count from the finish wait for their run", async () => {
    engine.declareSchedule(
      "paced",
      { ...spec, timing: { kind: "every", intervalMs: 40_000, from: "finish" } },
      at("12:00:10"),
    );
    await engine.role({ scripts: { work: takes(engine.clock, 25_000) } });
    await engine.clock.advance(150_000);
    const starts = engine.database.fires.map((fire) => fire.atMs - BASE_MS);
    expect(starts).toHaveLength(3);
    const [first = 0, second = 0, third = 0] = starts;
    expect(first).toBe(10_000);
    for (const gap of [second - first, third - second]) {
      expect(gap).toBeGreaterThanOrEqual(65_000);
      expect(gap).toBeLessThan(66_500);
    }
  });

  it("with runOnStart fire once for the installation, not for each process or leader", async () => {
    engine.declareSchedule("starting", { ...spec, runOnStart: true }, at("18:00:00"));
    const first = await engine.role();
    await engine.role();
    await engine.clock.advance(5_000);
    const stopped = first.role.stop();
    await engine.clock.advance(20_000);
    await stopped;
    expect(fires("starting", "on-start")).toHaveLength(1);
  });

  it("with runOnStart fire though the first revision comes after the scheduler's start", async () => {
    await engine.role();
    await engine.clock.advance(5_000);
    engine.declareSchedule("starting", { ...spec, runOnStart: true }, at("18:00:00"));
    engine.doorbell.ring({ kind: "revision" });
    await engine.clock.advance(1_000);
    expect(fires("starting", "on-start")).toHaveLength(1);
  });

  it("that are declared while the scheduler sleeps are in force within a second of the ring", async () => {
    await engine.role();
    await engine.clock.advance(10_000);
    engine.declareSchedule("new", spec, new Date(engine.database.nowMs() + 500));
    engine.doorbell.ring({ kind: "schedules" });
    await engine.clock.advance(600);
    expect(fires("new")).toHaveLength(1);
  });
});

describe("the promoter", () => {
  it("moves a delayed job into its queue within a second of its time, and runs it", async () => {
    await engine.role();
    await engine.clock.advance(3_000);
    const id = await engine.enqueue({ due: { afterMs: 30_000 } });
    await engine.clock.advance(29_900);
    expect(engine.job(id).state).toBe("Scheduled");
    await engine.clock.advance(1_100);
    expect(engine.job(id).state).toBe("Succeeded");
  });

  it("waits for a job that is due in 60 days without firing it early (A17)", async () => {
    await engine.role();
    const id = await engine.enqueue({ due: { afterMs: 60 * 86_400_000 } });
    await engine.clock.advance(60_000);
    expect(engine.job(id).state).toBe("Scheduled");
    engine.databaseOffsetMs = 60 * 86_400_000;
    await engine.clock.advance(2_000);
    expect(engine.job(id).state).toBe("Succeeded");
  });
});
