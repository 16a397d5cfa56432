import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { firesBetween, nextFire, previousFire } from "../../runtime/time/next-fire.ts";
import type { Timing } from "../../runtime/time/timing.ts";
import { bruteForceFires, readWindow, type Window } from "./brute-force.ts";
import { cronModel } from "./cron-model.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Clock changes of every kind: an hour, half an hour, two hours, at midnight, a whole day, no daylight saving. */
const CHANGES: readonly (readonly [timeZone: string, around: string])[] = [
  ["Europe/Berlin", "2026-03-29T01:00:00Z"],
  ["Europe/Berlin", "2026-10-25T01:00:00Z"],
  ["America/New_York", "2026-03-08T07:00:00Z"],
  ["America/New_York", "2026-11-01T06:00:00Z"],
  ["Australia/Lord_Howe", "2026-04-04T15:00:00Z"],
  ["Australia/Lord_Howe", "2026-10-03T15:30:00Z"],
  ["Antarctica/Troll", "2026-03-29T01:00:00Z"],
  ["Antarctica/Troll", "2026-10-25T01:00:00Z"],
  ["America/Santiago", "2026-09-06T04:00:00Z"],
  ["America/Santiago", "2026-04-05T03:00:00Z"],
  ["America/Sao_Paulo", "2018-11-04T03:00:00Z"],
  ["Africa/Cairo", "2026-04-23T22:00:00Z"],
  ["Africa/Cairo", "2026-10-29T21:00:00Z"],
  ["Africa/Casablanca", "2026-02-15T02:00:00Z"],
  ["Africa/Casablanca", "2026-03-22T02:00:00Z"],
  ["Pacific/Apia", "2011-12-30T10:00:00Z"],
  ["Asia/Pyongyang", "2018-05-04T15:00:00Z"],
  ["America/St_Johns", "2011-03-13T03:31:00Z"],
  ["America/St_Johns", "2010-11-07T02:31:00Z"],
  ["Asia/Kathmandu", "2026-07-01T00:00:00Z"],
  ["UTC", "2026-12-31T00:00:00Z"],
];

const LEAD = DAY + HOUR;
const windows: readonly Window[] = CHANGES.map(([timeZone, around]) => {
  const at = Date.parse(around);
  return readWindow(timeZone, at - LEAD - DAY, at + 2 * DAY, 60_000);
});
const narrowWindows: readonly Window[] = CHANGES.map(([timeZone, around]) => {
  const at = Date.parse(around);
  return readWindow(timeZone, at - 3 * HOUR, at + 3 * HOUR, 1_000);
});

const zoneNames = Intl.supportedValuesOf("timeZone");
const anyZone = fc.constantFrom(...zoneNames);
const anyInstant = fc.integer({ min: 0, max: Date.UTC(2040, 0, 1) });

function expectOracle(window: Window, lead: number, model: Parameters<typeof bruteForceFires>[0]): void {
  const timing: Timing = { kind: "cron", expression: model.expression, timeZone: window.timeZone };
  const from = new Date(window.start + lead);
  const to = new Date(window.end);
  const fires = firesBetween(timing, from, to, 100_000).map((fire) => fire.getTime());
  const expected = bruteForceFires(model, window, lead);
  expect(fires).toEqual(expected);
  expect(walkBack(timing, { from: from.getTime(), to: window.end })).toEqual(expected);
}

function walkBack(timing: Timing, { from, to }: { readonly from: number; readonly to: number }): number[] {
  const fires: number[] = [];
  for (let at = previousFire(timing, new Date(to + 1)); at !== null && at.getTime() > from; ) {
    fires.unshift(at.getTime());
    at = previousFire(timing, at);
  }
  return fires;
}

describe("fires of any cron expression", () => {
  test("are those of a brute-force search over the minutes around clock changes, forwards and backwards", () => {
    fc.assert(
      fc.property(fc.constantFrom(...windows), cronModel("minutes"), (window, model) => {
        fc.pre(model.minutes.size * model.hours.size < 300);
        expectOracle(window, LEAD, model);
      }),
      { numRuns: 400 },
    );
  });

  test("are those of a brute-force search over the seconds around clock changes", () => {
    fc.assert(
      fc.property(fc.constantFrom(...narrowWindows), cronModel("seconds"), (window, model) => {
        fc.pre(model.seconds.size * model.minutes.size < 60);
        expectOracle(window, 2 * HOUR, model);
      }),
      { numRuns: 100 },
    );
  });

  test("are those of a brute-force search in any zone and any year", () => {
    fc.assert(
      fc.property(anyZone, anyInstant, cronModel("minutes"), (timeZone, instant, model) => {
        // Two zones kept seconds in their offset until 1972.
        const start = Math.max(Math.floor(instant / 60_000) * 60_000, Date.UTC(1973, 0, 1));
        fc.pre(model.minutes.size * model.hours.size < 300);
        expectOracle(readWindow(timeZone, start, start + LEAD + DAY, 60_000), LEAD, model);
      }),
      { numRuns: 100 },
    );
  });

  test("are on the days that a walk over the calendar gives", () => {
    const calendar = readWindow("UTC", Date.UTC(2026, 0, 1), Date.UTC(2028, 11, 31), DAY);
    fc.assert(
      fc.property(cronModel("midnight"), (model) => {
        const timing: Timing = { kind: "cron", expression: model.expression, timeZone: "UTC" };
        const fires = firesBetween(timing, new Date(calendar.start), new Date(calendar.end), 100_000);
        expect(fires.map((fire) => fire.getTime())).toEqual(bruteForceFires(model, calendar, 0));
      }),
      { numRuns: 100 },
    );
  });

  test("of a whole year are those of a walk over its quarters of an hour", () => {
    const quarter = fc.subarray([0, 15, 30, 45], { minLength: 1 });
    const hours = fc.option(fc.uniqueArray(fc.integer({ min: 0, max: 23 }), { minLength: 1, maxLength: 6 }));
    const year = [Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 3)] as const;
    const zones = ["Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Tehran"];
    const years = zones.map((timeZone) => readWindow(timeZone, ...year, 900_000));
    const numbers = (list: readonly number[]) => [...list].sort((left, right) => left - right).join(",");
    fc.assert(
      fc.property(fc.constantFrom(...years), quarter, hours, fc.boolean(), (window, minutes, someHours, mondays) => {
        const expression = `${numbers(minutes)} ${someHours === null ? "*" : numbers(someHours)} * * ${mondays ? "MON" : "*"}`;
        const model = {
          expression,
          seconds: new Set([0]),
          minutes: new Set(minutes),
          hours: new Set(someHours ?? Array.from({ length: 24 }, (_, hour) => hour)),
          months: new Set(Array.from({ length: 12 }, (_, month) => month + 1)),
          dayOfMonth: null,
          dayOfWeek: mondays ? ({ weekday }: { readonly weekday: number }) => weekday === 1 : null,
          open: someHours === null,
        };
        expectOracle(window, LEAD, model);
      }),
      { numRuns: 10 },
    );
  });

  test("follow the schedule's own rule of clock changes, as a brute-force search does", () => {
    const rule = fc.record(
      { gap: fc.constantFrom("shift", "skip"), fold: fc.constantFrom("first", "second", "both") } as const,
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.constantFrom(...windows), cronModel("minutes"), rule, (window, model, dst) => {
        fc.pre(model.minutes.size * model.hours.size < 300);
        const timing: Timing = { kind: "cron", expression: model.expression, timeZone: window.timeZone, dst };
        const range = { from: window.start + LEAD, to: window.end - LEAD };
        const expected = bruteForceFires(model, window, LEAD, dst).filter((at) => at <= range.to);
        const fires = firesBetween(timing, new Date(range.from), new Date(range.to), 100_000);
        expect(fires.map((fire) => fire.getTime())).toEqual(expected);
        expect(walkBack(timing, range)).toEqual(expected);
      }),
      { numRuns: 400 },
    );
  });

  test("of a list are those of its expressions together, each instant once", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...windows),
        fc.array(cronModel("minutes"), { minLength: 2, maxLength: 4 }),
        (window, models) => {
          fc.pre(models.every((model) => model.minutes.size * model.hours.size < 300));
          const [expression = "", ...others] = models.map((model) => model.expression);
          const timing: Timing = { kind: "cron", expression, others, timeZone: window.timeZone };
          const range = { from: window.start + LEAD, to: window.end };
          const all = new Set(models.flatMap((model) => bruteForceFires(model, window, LEAD)));
          const expected = [...all].sort((left, right) => left - right);
          const fires = firesBetween(timing, new Date(range.from), new Date(range.to), 100_000);
          expect(fires.map((fire) => fire.getTime())).toEqual(expected);
          expect(walkBack(timing, range)).toEqual(expected);
        },
      ),
      { numRuns: 100 },
    );
  });

  test("come strictly after the instant asked for, and the previous fire undoes the next one", () => {
    fc.assert(
      fc.property(anyZone, anyInstant, cronModel("seconds"), (timeZone, instant, model) => {
        const timing: Timing = { kind: "cron", expression: model.expression, timeZone };
        const next = nextFire(timing, new Date(instant));
        if (next === null) return;
        expect(next.getTime()).toBeGreaterThan(instant);
        expect(previousFire(timing, new Date(next.getTime() + 1))).toEqual(next);
        const previous = previousFire(timing, next);
        expect(previous === null || previous.getTime() <= instant).toBe(true);
        if (previous !== null) expect(nextFire(timing, previous)).toEqual(next);
      }),
      { numRuns: 1_000 },
    );
  });
});
