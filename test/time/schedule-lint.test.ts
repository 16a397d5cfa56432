import { describe, expect, it } from "vitest";
import { lintSchedules } from "../../runtime/time/schedule-lint.ts";
import type { Timing } from "../../runtime/time/timing.ts";

const NOW = new Date("2026-12-01T00:00:00Z");
const cron = (expression: string, timeZone = "UTC"): Timing => ({ kind: "cron", expression, timeZone });

function lint(timings: Readonly<Record<string, Timing>>, pileUp = 5) {
  const schedules = Object.entries(timings).map(([name, timing]) => ({
    name,
    timing,
    timeZone: timing.kind === "cron" ? timing.timeZone : "UTC",
  }));
  return lintSchedules(schedules, { now: NOW, pileUp }).map(({ rule, schedule, message }) => ({
    rule,
    schedule,
    message,
  }));
}

describe("lint of schedules", () => {
  it("finds what never fires, and what has passed", () => {
    const found = lint({
      leap: cron("0 0 30 2 *"),
      past: { kind: "at", at: "2026-01-01T00:00:00Z" },
      ahead: { kind: "at", at: "2027-01-01T00:00:00Z" },
      afterRuns: { kind: "every", intervalMs: 40_000, from: "finish" },
    });
    expect(found.map(({ rule, schedule }) => `${rule} ${schedule}`)).toEqual(["NEVER_FIRES leap", "NEVER_FIRES past"]);
  });

  it("finds a day and a weekday that are both restricted, and lets a weekday of the month be", () => {
    const found = lint({ both: cron("7 9 1 * MON"), second: cron("7 9 * * MON#2"), step: cron("7 9 */2 * MON") });
    expect(found.map(({ rule, schedule }) => `${rule} ${schedule}`)).toEqual(["EITHER_DAY both", "EITHER_DAY step"]);
    expect(found[0]?.message).toContain('"7 9 1 * MON" restricts both');
  });

  it("finds fixed times that a clock change moves or repeats, and what it does to them", () => {
    const found = lint({
      gap: cron("30 2 * * *", "Europe/Berlin"),
      early: cron("30 1 * * *", "Europe/Berlin"),
      midnight: cron("0 0 * * *", "America/Santiago"),
      utc: cron("30 2 * * *"),
      late: cron("30 1 * * *", "Europe/London"),
      sunday: cron("30 2 * * MON", "Europe/Berlin"),
    });
    expect(found.map(({ schedule }) => schedule)).toEqual(["gap", "midnight", "late"]);
    expect(found[0]?.message).toBe(
      "the times of Schedule/gap meet the clock changes of Europe/Berlin. 2027-03-28 (clocks 02:00 → 03:00): 02:30 does not exist on this day: fires at the end of the gap, at 2027-03-28T03:00:00+02:00",
    );
  });

  it("finds steps within one hour that a clock change drops, and lets what follows real time be", () => {
    const found = lint({
      drops: cron("*/5 2 * * *", "Europe/Berlin"),
      follows: cron("*/5 * * * *", "Europe/Berlin"),
      regular: cron("7 */2 * * *", "Europe/Berlin"),
    });
    expect(found.map(({ schedule, message }) => [schedule, message.includes("instead of 12")])).toEqual([
      ["drops", true],
    ]);
  });

  it("finds pile-ups of as many as it is told, at the top of the hour and elsewhere", () => {
    const three = (expression: string) =>
      Object.fromEntries(["a", "b", "c"].map((name) => [`${name}${expression.slice(0, 2)}`, cron(expression)]));
    const timings = { ...three("0 3 * * *"), ...three("7 4 * * *"), often: cron("* * * * *") };
    expect(lint(timings)).toEqual([]);
    const found = lint(timings, 3);
    expect(found.map(({ rule }) => rule)).toEqual([...Array(3).fill("TOP_OF_HOUR"), ...Array(3).fill("SAME_SECOND")]);
    expect(found[0]?.message).toBe(
      "Schedule/a0  fires together with 2 others at 2026-12-01T03:00:00Z, the top of the hour",
    );
  });
});
