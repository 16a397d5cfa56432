import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type DueTiming, decideDue, firstFireAfterEdit, MISFIRE_GRACE_MS } from "../../runtime/time/due.ts";
import { firesBetween } from "../../runtime/time/next-fire.ts";
import type { Timing } from "../../runtime/time/timing.ts";

const noon = Date.parse("2026-06-01T12:00:00Z");
const hourly: Timing = { kind: "cron", expression: "0 * * * *", timeZone: "UTC" };
const secondly: Timing = { kind: "cron", expression: "* * * * * *", timeZone: "Europe/Berlin" };

function due(timing: Timing, misfirePolicy: DueTiming["misfirePolicy"], nextFireAt = noon): DueTiming {
  return { timing, misfirePolicy, nextFireAt: new Date(nextFireAt) };
}

describe("a due schedule", () => {
  test("is left as it is before its instant", () => {
    const decision = decideDue(due(hourly, "latest"), new Date(noon - 1));
    expect(decision).toMatchObject({ fires: [], skips: [], skippedCount: 0, nextFireAt: new Date(noon) });
  });

  test.each(["latest", "none"] as const)("fires at its instant and up to a minute later under %s", (policy) => {
    for (const late of [0, 1, MISFIRE_GRACE_MS]) {
      const decision = decideDue(due(hourly, policy), new Date(noon + late));
      expect(decision).toMatchObject({ fires: [new Date(noon)], skips: [], nextFireAt: new Date(noon + 3_600_000) });
    }
  });

  test("that is more than a minute late runs once under latest", () => {
    const decision = decideDue(due(hourly, "latest"), new Date(noon + MISFIRE_GRACE_MS + 1));
    expect(decision).toMatchObject({ fires: [new Date(noon)], skips: [] });
  });

  test("that is more than a minute late is missed under none", () => {
    const decision = decideDue(due(hourly, "none"), new Date(noon + MISFIRE_GRACE_MS + 1));
    expect(decision).toMatchObject({
      fires: [],
      skips: [{ at: new Date(noon), reason: "missed" }],
      skippedCount: 1,
      nextFireAt: new Date(noon + 3_600_000),
    });
  });

  test("runs the newest instant under none when that one is on time, and misses the older ones", () => {
    const decision = decideDue(due(hourly, "none"), new Date(noon + 2 * 3_600_000 + 5_000));
    expect(decision.fires).toEqual([new Date(noon + 2 * 3_600_000)]);
    expect(decision.skips).toEqual([
      { at: new Date(noon), reason: "missed" },
      { at: new Date(noon + 3_600_000), reason: "missed" },
    ]);
  });

  test("counts a stored instant as due that the timing would not give any more", () => {
    const decision = decideDue(due(hourly, "latest", noon + 1_234), new Date(noon + 10_000));
    expect(decision).toMatchObject({ fires: [new Date(noon + 1_234)], skips: [], skippedCount: 0 });
  });

  test("of one instant fires once and has no next", () => {
    const timing: Timing = { kind: "at", at: "2026-06-01T12:00:00Z" };
    expect(decideDue(due(timing, "latest"), new Date(noon + 86_400_000))).toMatchObject({
      fires: [new Date(noon)],
      skippedCount: 0,
      nextFireAt: null,
    });
    expect(decideDue(due(timing, "none"), new Date(noon + 86_400_000))).toMatchObject({
      fires: [],
      skips: [{ at: new Date(noon), reason: "missed" }],
      nextFireAt: null,
    });
  });

  test("that counts from the finish has no next fire until its run has ended", () => {
    const timing: Timing = { kind: "every", intervalMs: 40_000, from: "finish" };
    expect(decideDue(due(timing, "latest"), new Date(noon + 500))).toMatchObject({
      fires: [new Date(noon)],
      nextFireAt: null,
    });
  });

  test("that counts from the finish and missed its instant under none goes on from now, as no run will end", () => {
    const timing: Timing = { kind: "every", intervalMs: 40_000, from: "finish" };
    expect(decideDue(due(timing, "none"), new Date(noon + 100_000))).toMatchObject({
      fires: [],
      skips: [{ at: new Date(noon), reason: "missed" }],
      nextFireAt: new Date(noon + 140_000),
    });
  });

  test("with a year of seconds behind it is decided in bounded work, its skips counted at least", () => {
    const year = 365 * 86_400_000;
    const started = performance.now();
    const decision = decideDue(due(secondly, "latest"), new Date(noon + year + 500));
    expect(performance.now() - started).toBeLessThan(2_000);
    expect(decision.fires).toEqual([new Date(noon + year)]);
    expect(decision.skips).toHaveLength(50);
    expect(decision.skips.at(-1)).toEqual({ at: new Date(noon + year - 1_000), reason: "superseded" });
    expect(decision).toMatchObject({ skippedCount: 1_050, skippedCountExact: false });
  });

  test("with a year of anchored intervals behind it counts its skips exactly", () => {
    const year = 365 * 86_400_000;
    const timing: Timing = { kind: "every", intervalMs: 1_000, from: "epoch" };
    const decision = decideDue(due(timing, "none"), new Date(noon + year + 500));
    expect(decision.fires).toEqual([new Date(noon + year)]);
    expect(decision).toMatchObject({ skippedCount: year / 1_000, skippedCountExact: true });
  });

  test("decides about every due instant exactly once, whatever the outage", () => {
    const timings: readonly Timing[] = [
      hourly,
      { kind: "cron", expression: "30 1,2 * * *", timeZone: "Europe/Berlin" },
      { kind: "cron", expression: "*/7 * * * *", timeZone: "America/New_York" },
      { kind: "every", intervalMs: 420_000, from: "epoch" },
    ];
    const outage = fc.integer({ min: 0, max: 5 * 86_400_000 });
    const start = fc.integer({ min: Date.UTC(2026, 2, 25), max: Date.UTC(2026, 10, 5) });
    const policy = fc.constantFrom("latest" as const, "none" as const);
    fc.assert(
      fc.property(fc.constantFrom(...timings), policy, start, outage, (timing, misfirePolicy, from, lateMs) => {
        const nextFireAt = firstFireAfterEdit(timing, new Date(from));
        if (nextFireAt === null) throw new Error("expected a fire");
        const now = new Date(nextFireAt.getTime() + lateMs);
        const decision = decideDue({ timing, nextFireAt, misfirePolicy }, now, {
          namedSkips: 30,
          countedSkips: 10_000,
        });
        const instants = firesBetween(timing, new Date(nextFireAt.getTime() - 1), now, 10_000);

        expect(decision.fires.length + decision.skippedCount).toBe(instants.length);
        expect(decision.skippedCountExact).toBe(true);
        const decided = [...decision.skips.map(({ at }) => at), ...decision.fires];
        expect(decided).toEqual(instants.slice(instants.length - decided.length));
        const newest = instants.at(-1)?.getTime() ?? 0;
        const isMissed = now.getTime() - newest > MISFIRE_GRACE_MS;
        expect(decision.fires.length).toBe(misfirePolicy === "none" && isMissed ? 0 : 1);
        expect(decision.nextFireAt?.getTime()).toBeGreaterThan(now.getTime());
      }),
      { numRuns: 200 },
    );
  });
});
