import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseCron } from "../../runtime/time/cron.ts";
import { matchFields } from "../../runtime/time/cron-match.ts";
import { explainInstant, readWallTime } from "../../runtime/time/explain.ts";
import { nextFire } from "../../runtime/time/next-fire.ts";
import type { Timing } from "../../runtime/time/timing.ts";

const BERLIN = "Europe/Berlin";
const cron = (expression: string, timeZone = BERLIN): Timing => ({ kind: "cron", expression, timeZone });
const explain = (timing: Timing, at: string, timeZone = BERLIN) => {
  const { isFire, reasons } = explainInstant(timing, timeZone, new Date(at));
  return { isFire, reasons };
};

describe("why a timing fires at an instant or does not", () => {
  it("names each field that does not match, and what the clock shows there", () => {
    expect(explain(cron("30 2 * * MON-FRI"), "2026-06-06T00:31:00Z")).toEqual({
      isFire: false,
      reasons: ['"30 2 * * MON-FRI" does not match: the day is Saturday the 6th, the minute is 31'],
    });
    expect(explain(cron("0 0 1 1 *", "UTC"), "2026-06-02T00:00:00Z", "UTC").reasons).toEqual([
      '"0 0 1 1 *" does not match: the month is June, the day is Tuesday the 2nd',
    ]);
  });

  it("explains every expression of a list", () => {
    const timing: Timing = { kind: "cron", expression: "0 6 * * *", others: ["0 18 * * *"], timeZone: "UTC" };
    expect(explain(timing, "2026-06-02T07:00:00Z", "UTC").reasons).toHaveLength(2);
    expect(explain(timing, "2026-06-02T18:00:00Z", "UTC").isFire).toBe(true);
  });

  it("tells what a clock change did", () => {
    expect(explain(cron("30 2 * * *"), "2026-03-29T01:00:00Z")).toEqual({
      isFire: true,
      reasons: ["02:30 does not exist on this day: fires at the end of the gap"],
    });
    expect(explain(cron("30 2 * * *"), "2026-10-25T01:30:00Z")).toEqual({
      isFire: false,
      reasons: ["02:30:00 on 2026-10-25 occurs twice on this day: it fires at 2026-10-25T02:30:00+02:00"],
    });
  });

  it("names the calendar that leaves an instant out, with its reason", () => {
    const range = { from: "2026-12-24T00:00:00", until: "2026-12-27T00:00:00", reason: "freeze" };
    const calendar = { name: "holidays", dates: ["2027-01-01"], ranges: [range], weekdays: [] };
    const timing: Timing = {
      ...cron("0 6 * * *", "UTC"),
      calendars: { timeZone: "UTC", include: [], exclude: [calendar] },
    };
    expect(explain(timing, "2026-12-25T06:00:00Z", "UTC")).toEqual({
      isFire: false,
      reasons: ["Calendar/holidays leaves it out: freeze"],
    });
    expect(explain(timing, "2027-01-01T06:00:00Z", "UTC").reasons).toEqual(["Calendar/holidays leaves it out"]);
  });

  it("explains intervals and instants", () => {
    const every: Timing = { kind: "every", intervalMs: 300_000, from: "epoch" };
    expect(explain(every, "2026-06-06T00:05:00Z").isFire).toBe(true);
    expect(explain(every, "2026-06-06T00:06:00Z").reasons[0]).toMatch(/no instant of every 5 m/);
    expect(explain({ ...every, from: "finish" }, "2026-06-06T00:05:00Z").isFire).toBeNull();
    expect(explain({ kind: "at", at: "2026-06-06T00:05:00Z" }, "2026-06-06T00:05:00Z").isFire).toBe(true);
  });

  it("agrees with the engine about every day, for every rule of days", () => {
    const days = fc.constantFrom("*", "?", "1", "15W", "1W", "31W", "L", "LW", "*/3", "28-31");
    const weekdays = fc.constantFrom("*", "MON", "5L", "SUN#1", "FRI#5", "1-5", "SATL", "?");
    const date = fc.integer({ min: Date.UTC(2020, 0, 1) / 86_400_000, max: Date.UTC(2040, 0, 1) / 86_400_000 });
    fc.assert(
      fc.property(days, weekdays, date, (day, weekday, days) => {
        const expression = `0 0 ${day} * ${weekday}`;
        const at = new Date(days * 86_400_000);
        const parsed = parseCron(expression);
        if (!parsed.ok) throw new Error(parsed.message);
        const matches = matchFields(parsed.cron, at.getTime()).every((field) => field.matches);
        const fires = nextFire(cron(expression, "UTC"), new Date(at.getTime() - 1))?.getTime() === at.getTime();
        expect(matches).toBe(fires);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a wall time of a zone", () => {
  it("names one instant as a rule, two in a repeated hour and none in a gap", () => {
    const instants = (text: string) => readWallTime(text, BERLIN)?.map((at) => at.toISOString());
    expect(instants("2026-06-01T02:30")).toEqual(["2026-06-01T00:30:00.000Z"]);
    expect(instants("2026-10-25 02:30:00")).toEqual(["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"]);
    expect(instants("2026-03-29T02:30")).toEqual([]);
    expect(instants("2026-03-29T02:30Z")).toBeUndefined();
  });
});
