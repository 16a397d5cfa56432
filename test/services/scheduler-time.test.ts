import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import type { ScheduleSpec } from "../../runtime/config/objects.ts";
import { createPauses } from "../../runtime/services/pauses.ts";
import { startPromoter } from "../../runtime/services/promoter.ts";
import { startScheduler } from "../../runtime/services/scheduler.ts";
import { startSlaWatch } from "../../runtime/services/sla-watch.ts";
import type { Loop } from "../../runtime/services/supervised-loop.ts";
import { scheduleSpec } from "../contract/definitions.ts";
import { BASE_MS, Engine, ignoresAbortFor, takes } from "./engine.ts";

const MINUTE_MS = 60_000;
const at = (text: string): Date => new Date(`2026-01-05T${text}Z`);
const spec = scheduleSpec({ job: "work" });

let engine: Engine;
const loops: Loop[] = [];
beforeEach(() => {
  engine = new Engine();
});
afterEach(async () => {
  await Promise.all(loops.splice(0).map((loop) => loop.stop()));
  await engine.close();
});

/** A leader without workers: everything that it makes waits. */
function lead(on = engine): Loop {
  const machine = on.machine();
  const surroundings = {
    clock: on.clock,
    random: seededRandom(3),
    observer: { observe: (event: (typeof machine.events)[number]) => void machine.events.push(event) },
  };
  const scheduler = startScheduler({
    ...surroundings,
    store: on.store,
    ids: on.ids,
    intervalMs: 2_000,
    batchSize: 200,
  });
  const promoter = startPromoter({ ...surroundings, store: on.store });
  const loop = {
    wake: () => scheduler.wake(),
    stop: async () => void (await Promise.all([scheduler.stop(), promoter.stop()])),
  };
  loops.push(loop);
  return loop;
}

function fires(outcome = "fired", on = engine): string[] {
  return on.database.fires
    .filter((fire) => fire.outcome === outcome)
    .map((fire) => new Date(fire.atMs).toISOString().slice(11, 19));
}

function waiting() {
  return [...engine.database.jobs.values()].filter((row) => row.finishedAtMs === null);
}

describe("B07: a pause", () => {
  it.each(["latest", "none", "all"] as const)("owes nothing at the resume under %s", async (misfirePolicy) => {
    engine.declareSchedule("minutely", { ...spec, misfirePolicy }, at("12:01:00"));
    const pauses = createPauses(engine.store);
    const target = { kind: "Schedule", name: "minutely" } as const;
    lead();
    await engine.clock.advance(30_000);
    await pauses.pause({ ...target, by: "maria", reason: null, until: null });
    await engine.clock.advance(100_000);
    await pauses.resume(target);
    await engine.clock.advance(49_000);
    expect(fires()).toEqual([]);
    await engine.clock.advance(1_000);
    expect(fires()).toEqual(["12:03:00"]);
    expect(engine.database.fires).toHaveLength(1);
  });

  it("that ends by itself fires an instant at its end, and none before it", async () => {
    engine.declareSchedule("minutely", spec, at("12:01:00"));
    const until = at("12:03:00");
    await engine.store.pause({ kind: "Schedule", name: "minutely", by: "maria", reason: null, until });
    lead();
    await engine.clock.advance(3 * MINUTE_MS + 5_000);
    expect(fires()).toEqual(["12:03:00"]);
    expect(engine.database.pauses.size).toBe(0);
  });
});

describe("B09: a leader that stops just before an instant", () => {
  it.each(["latest", "none"] as const)(
    "leaves it to the next one, which fires it once under %s",
    async (misfirePolicy) => {
      engine.declareSchedule("minutely", { ...spec, misfirePolicy }, at("12:01:00"));
      const first = await engine.role();
      await engine.clock.advance(MINUTE_MS - 10);
      const stopped = first.role.stop();
      const second = await engine.role();
      await engine.clock.advance(2_000);
      await stopped;
      expect(fires()).toEqual(["12:01:00"]);
      expect(second.events.map(({ kind }) => kind)).toContain("duty-taken");
    },
  );
});

describe("B11: a leader with an older revision", () => {
  it("fires nothing for the rule that it has read before the edit", async () => {
    engine.declareSchedule("edited", spec, at("12:01:00"));
    const old = (await engine.store.loadDueSchedules(10)).schedules;
    await engine.clock.advance(MINUTE_MS);
    const [read] = (await engine.store.loadDueSchedules(10)).schedules;
    expect(old).toEqual([]);
    const row = engine.database.schedules.get("edited");
    if (row === undefined || read === undefined) throw new Error("the schedule is not due");
    Object.assign(row, { timingHash: "t2", nextFireAtMs: at("12:30:00").getTime() });
    const outcomes = await engine.store.applySteps([
      {
        name: "edited",
        expected: { nextFireAt: read.nextFireAt, timingHash: read.timingHash },
        fires: [{ at: read.nextFireAt, jobId: engine.ids.jobId() }],
        skips: [],
        olderSkips: 0,
        nextFireAt: at("12:02:00"),
      },
    ]);
    expect(outcomes).toMatchObject([{ kind: "stale" }]);
    lead();
    await engine.clock.advance(28 * MINUTE_MS);
    expect(fires()).toEqual([]);
    await engine.clock.advance(MINUTE_MS);
    expect(fires()).toEqual(["12:30:00"]);
  });
});

describe("B13: half an hour without workers", () => {
  const run = async (concurrencyPolicy: ScheduleSpec["concurrencyPolicy"]) => {
    engine.declareSchedule("minutely", { ...spec, concurrencyPolicy }, at("12:01:00"));
    lead();
    await engine.clock.advance(30 * MINUTE_MS);
  };

  it("makes a job for every instant under Allow", async () => {
    await run("Allow");
    expect(waiting()).toHaveLength(30);
  });

  it("keeps one job and records the skips with it under Forbid", async () => {
    await run("Forbid");
    const [job, ...others] = waiting();
    expect(others).toEqual([]);
    const skips = engine.database.fires.filter((fire) => fire.outcome === "overlapped");
    expect(skips).toHaveLength(29);
    expect(skips.every(({ blockedBy }) => blockedBy === job?.id)).toBe(true);
  });

  it("keeps one and lets one more wait under Queue", async () => {
    await run("Queue");
    expect(waiting().map(({ hold }) => hold)).toEqual([null, "overlap"]);
    expect(fires("overlapped")).toHaveLength(28);
  });

  it("keeps the one of the latest instant under Replace", async () => {
    await run("Replace");
    await engine.clock.advance(2_000);
    expect(waiting().map((row) => [row.state, row.schedule?.firedFor])).toEqual([["Enqueued", at("12:30:00")]]);
    expect(fires()).toHaveLength(30);
  });
});

describe("runs that may not overlap", () => {
  it("follow one another under Queue", async () => {
    engine.declareSchedule("slow", { ...spec, concurrencyPolicy: "Queue" }, at("12:01:00"));
    await engine.role({ scripts: { work: takes(engine.clock, 90_000) } });
    await engine.clock.advance(6 * MINUTE_MS);
    const rows = [...engine.database.jobs.values()];
    expect(engine.database.processing.size).toBe(1);
    expect(rows.filter(({ state }) => state === "Succeeded")).toHaveLength(3);
  });

  it("end for the next one under Replace, which starts when they have ended", async () => {
    engine.declareSchedule("slow", { ...spec, concurrencyPolicy: "Replace" }, at("12:01:00"));
    await engine.role({ scripts: { work: takes(engine.clock, 10 * MINUTE_MS) } });
    await engine.clock.advance(4 * MINUTE_MS + 20_000);
    const rows = [...engine.database.jobs.values()];
    expect(rows.map(({ state }) => state)).toEqual(["Cancelled", "Cancelled", "Cancelled", "Processing"]);
    expect(rows.at(-1)?.schedule?.firedFor).toEqual(at("12:04:00"));
  });
});

describe("a run under Replace that ignores its cancel", () => {
  it("is cut off, and the next one starts only then", async () => {
    engine.declareSchedule("deaf", { ...spec, concurrencyPolicy: "Replace" }, at("12:01:00"));
    const { host } = await engine.role({ scripts: { work: ignoresAbortFor(engine.clock, 60 * MINUTE_MS) } });
    await engine.clock.advance(2 * MINUTE_MS + 50_000);
    expect(host.asked).toContain("end");
    const rows = [...engine.database.jobs.values()];
    expect(rows.map(({ state }) => state)).toEqual(["Cancelled", "Processing"]);
    expect(rows.at(-1)?.schedule?.firedFor).toEqual(at("12:02:00"));
  });
});

describe("jitter", () => {
  const jitter = (mode: "stable" | "random") => ({ ...spec.timing, jitter: { maxMs: 30_000, mode } });

  it("that is stable starts a schedule's jobs after the same delay each time, and different schedules apart", async () => {
    for (const name of ["a", "b", "c"])
      engine.declareSchedule(name, { ...spec, timing: jitter("stable"), concurrencyPolicy: "Allow" }, at("12:01:00"));
    lead();
    await engine.clock.advance(3 * MINUTE_MS + 40_000);
    const delays = new Map<string, Set<number>>();
    for (const { schedule, runAtMs } of engine.database.jobs.values()) {
      const delay = runAtMs - (schedule?.firedFor.getTime() ?? 0);
      expect(delay).toBeLessThanOrEqual(30_000);
      delays.set(schedule?.name ?? "", (delays.get(schedule?.name ?? "") ?? new Set()).add(delay));
    }
    expect([...delays.values()].map(({ size }) => size)).toEqual([1, 1, 1]);
    expect(new Set([...delays.values()].flatMap((each) => [...each])).size).toBe(3);
    expect(new Set(fires())).toEqual(new Set(["12:01:00", "12:02:00", "12:03:00"]));
  });

  it("that is random draws another delay for every fire", async () => {
    engine.declareSchedule("a", { ...spec, timing: jitter("random"), concurrencyPolicy: "Allow" }, at("12:01:00"));
    lead();
    await engine.clock.advance(5 * MINUTE_MS + 40_000);
    const delays = [...engine.database.jobs.values()].map(
      ({ schedule, runAtMs }) => runAtMs - (schedule?.firedFor.getTime() ?? 0),
    );
    expect(new Set(delays).size).toBe(5);
  });
});

describe("missed instants under all", () => {
  it("run oldest first, the newest as many as are allowed, those before being told as missed", async () => {
    const all = { ...spec, concurrencyPolicy: "Allow", misfirePolicy: "all", maxCatchupRuns: 3 } as const;
    engine.declareSchedule("minutely", all, at("12:01:00"));
    engine.databaseOffsetMs = 6 * MINUTE_MS + 1_000;
    lead();
    await engine.clock.settle();
    expect(fires()).toEqual(["12:04:00", "12:05:00", "12:06:00"]);
    expect(fires("missed")).toEqual(["12:01:00", "12:02:00", "12:03:00"]);
  });

  it("run no later than their deadline", async () => {
    const latest = { ...spec, misfirePolicy: "latest", startingDeadlineMs: 90_000 } as const;
    const hourly = { ...latest, timing: { kind: "cron", expression: "0 * * * *", timeZone: "UTC" } } as const;
    engine.declareSchedule("within", hourly, at("12:58:40"));
    engine.declareSchedule("beyond", hourly, at("12:58:20"));
    engine.databaseOffsetMs = 60 * MINUTE_MS - 1;
    lead();
    await engine.clock.settle();
    expect(engine.database.fires).toMatchObject(
      [
        { schedule: "within", outcome: "fired" },
        { schedule: "beyond", outcome: "missed" },
      ].sort((one, other) => one.schedule.localeCompare(other.schedule)),
    );
  });
});

describe("instants that a calendar leaves out", () => {
  it("are recorded with the next fire, and a start of the installation does not fire on such a day", async () => {
    const exclude = [
      {
        name: "freeze",
        dates: [],
        ranges: [{ from: "2026-01-05T12:02:00", until: "2026-01-05T12:04:00", reason: "freeze" }],
        weekdays: [],
      },
    ];
    const timing = { ...spec.timing, calendars: { timeZone: "UTC", include: [], exclude } };
    engine.declareSchedule("frozen", { ...spec, timing, concurrencyPolicy: "Allow" }, at("12:01:00"));
    lead();
    await engine.clock.advance(4 * MINUTE_MS);
    expect(fires()).toEqual(["12:01:00", "12:04:00"]);
    expect(fires("calendar")).toEqual(["12:02:00", "12:03:00"]);
  });
});

describe("a run that was expected", () => {
  it("is told about once when it does not come, as an event and by a job", async () => {
    engine.declare({ type: "alert" });
    const sla = { finishBy: null, maxAgeMs: 10 * MINUTE_MS, notify: "alert" };
    engine.declareSchedule("hourly", { ...spec, sla }, at("13:00:00"));
    const { events } = engine.machine();
    const surroundings = { clock: engine.clock, random: seededRandom(3) };
    loops.push(
      startSlaWatch({
        ...surroundings,
        store: engine.store,
        ids: engine.ids,
        observer: { observe: (event) => void events.push(event) },
      }),
    );
    await engine.clock.advance(9 * MINUTE_MS);
    expect(events).toEqual([]);
    await engine.clock.advance(30 * MINUTE_MS);
    const dueAt = new Date(BASE_MS + 10 * MINUTE_MS);
    expect(events).toMatchObject([{ kind: "sla-missed", schedule: "hourly", expectation: "max-age", dueAt }]);
    expect(waiting().map(({ type }) => type)).toEqual(["alert"]);
  });
});

describe("whatever clocks, leaders and operators do", () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant("advance" as const), ms: fc.integer({ min: 1, max: 200_000 }) }),
    fc.record({ kind: fc.constant("jump" as const), ms: fc.integer({ min: -300_000, max: 300_000 }) }),
    fc.record({ kind: fc.constantFrom("pause" as const, "resume" as const, "leader" as const, "second" as const) }),
  );

  it("no instant fires twice, and none is lost that lies outside of a pause", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
        const own = new Engine();
        const policy = { concurrencyPolicy: "Allow", misfirePolicy: "all", maxCatchupRuns: 1_000 } as const;
        own.declareSchedule("minutely", { ...spec, ...policy }, at("12:01:00"));
        const pauses = createPauses(own.store);
        const target = { kind: "Schedule", name: "minutely" } as const;
        const leaders = [lead(own)];
        const paused: { from: number; to: number }[] = [];
        let latestMs = own.database.nowMs();
        const seen = (): number => (latestMs = Math.max(latestMs, own.database.nowMs()));
        const isPaused = (): boolean => own.database.pauses.size > 0;
        for (const { kind, ...options } of steps) {
          const { ms = 0 } = options as { ms?: number };
          const last = paused.at(-1);
          if (kind === "advance") await own.clock.advance(ms);
          else if (kind === "jump") own.databaseOffsetMs += ms;
          else if (kind === "pause" && !isPaused()) {
            await own.clock.advance(2_100);
            paused.push({ from: own.database.nowMs(), to: own.database.nowMs() });
            await pauses.pause({ ...target, by: "x", reason: null, until: null });
          } else if (kind === "resume") await pauses.resume(target);
          else if (kind === "second") leaders.push(lead(own));
          else if (kind === "leader") {
            await leaders.shift()?.stop();
            leaders.push(lead(own));
          }
          seen();
          if (last !== undefined && (isPaused() || kind === "resume")) {
            last.from = Math.min(last.from, own.database.nowMs());
            last.to = Math.max(last.to, latestMs);
          }
        }
        await pauses.resume(target);
        own.databaseOffsetMs += latestMs - Math.min(latestMs, own.database.nowMs());
        await own.clock.advance(130_000);
        const endMs = own.database.nowMs();
        const fired = own.database.fires.filter(({ outcome }) => outcome === "fired").map(({ atMs }) => atMs);
        expect(new Set(fired).size).toBe(fired.length);
        const jobs = [...own.database.jobs.values()].map(({ schedule }) => schedule?.firedFor.getTime());
        expect(new Set(jobs).size).toBe(jobs.length);
        for (let due = BASE_MS + MINUTE_MS; due <= endMs - 3_000; due += MINUTE_MS) {
          const mayBeLeftOut = paused.some(({ from, to }) => from <= due && due <= to);
          if (!mayBeLeftOut) expect(fired).toContain(due);
        }
        await Promise.all(loops.splice(0).map((loop) => loop.stop()));
        await own.close();
      }),
      { numRuns: 60 },
    );
  });
});
