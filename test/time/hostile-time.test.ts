import { describe, expect, test } from "vitest";
import { MAX_CALENDAR_ENTRIES, readCalendarFile } from "../../runtime/config/calendar-file.ts";
import { parseCron } from "../../runtime/time/cron.ts";
import { decideDue, firstFireAfterEdit } from "../../runtime/time/due.ts";
import { jitterDelayMs } from "../../runtime/time/jitter.ts";
import { firesBetween, nextFire, previousFire } from "../../runtime/time/next-fire.ts";
import type { Timing } from "../../runtime/time/timing.ts";

/** What a hostile or unlucky author writes: each is decided in bounded time and as the rules say. */

const DAY_MS = 86_400_000;
/** Far more than any of it takes on a slow machine, far less than a walk without a bound. */
const BOUND_MS = 5_000;
const END_OF_TIME = new Date("9999-12-31T00:00:00Z");
const at = (text: string): Date => new Date(text);

function cron(expression: string, timeZone = "UTC"): Timing {
  return { kind: "cron", expression, timeZone };
}

function fires(timing: Timing, after: string, count: number): readonly string[] {
  return firesBetween(timing, at(after), END_OF_TIME, count).map((fire) => fire.toISOString().slice(0, 16));
}

function within<Result>(work: () => Result): Result {
  const start = performance.now();
  const result = work();
  expect(performance.now() - start).toBeLessThan(BOUND_MS);
  return result;
}

describe("midnight in a zone that changes its clock at midnight", () => {
  test.each([
    ["America/Havana", "2026-03-07T12:00:00Z", ["2026-03-08T05:00", "2026-03-09T04:00"]],
    ["America/Havana", "2026-10-31T12:00:00Z", ["2026-11-01T04:00", "2026-11-02T05:00"]],
    ["Asia/Beirut", "2026-03-28T12:00:00Z", ["2026-03-28T22:00", "2026-03-29T21:00"]],
    ["Africa/Cairo", "2026-04-23T12:00:00Z", ["2026-04-23T22:00", "2026-04-24T21:00"]],
  ])("%s after %s comes once a day", (timeZone, after, expected) => {
    expect(fires(cron("0 0 * * *", timeZone), after, 2)).toEqual(expected);
  });
});

describe("days that are rare", () => {
  test("29 February comes in leap years only, the year 2100 left out", () => {
    expect(fires(cron("0 0 29 2 *"), "2026-01-01T00:00:00Z", 2)).toEqual(["2028-02-29T00:00", "2032-02-29T00:00"]);
    expect(fires(cron("0 0 29 2 *"), "2096-03-01T00:00:00Z", 1)).toEqual(["2104-02-29T00:00"]);
    expect(previousFire(cron("0 0 29 2 *"), at("2104-02-01T00:00:00Z"))).toEqual(at("2096-02-29T00:00:00Z"));
  });

  test("that never come are known to, in bounded time", () => {
    for (const never of ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *"]) {
      expect(within(() => nextFire(cron(never, "America/New_York"), at("2026-01-01T00:00:00Z")))).toBeNull();
    }
  });

  test("before and after a cycle of 400 years are found across its border", () => {
    expect(fires(cron("0 12 * * FRI#5"), "2399-12-30T13:00:00Z", 1)).toEqual(["2399-12-31T12:00"]);
    expect(fires(cron("0 0 29 2 *"), "2399-12-31T23:59:59Z", 1)).toEqual(["2400-02-29T00:00"]);
    expect(previousFire(cron("0 0 29 2 *"), at("2400-01-01T00:00:00Z"))).toEqual(at("2396-02-29T00:00:00Z"));
  });

  test("thousands of years ahead are found as those of tomorrow", () => {
    expect(within(() => fires(cron("30 2 * * *", "Europe/Berlin"), "9000-06-01T12:00:00Z", 2))).toEqual([
      "9000-06-02T00:30",
      "9000-06-03T00:30",
    ]);
  });
});

describe("a calendar of 10,000 days", () => {
  const first = Date.UTC(2026, 0, 1);
  const dates = Array.from({ length: 10_000 }, (_, day) => new Date(first + day * DAY_MS).toISOString().slice(0, 10));
  const long = { name: "long", dates, ranges: [], weekdays: [] };
  const after = new Date(first + 10_000 * DAY_MS);

  test("that is excluded is passed over at once", () => {
    const calendars = { timeZone: "UTC", include: [], exclude: [long] };
    const timing: Timing = { kind: "cron", expression: "*/5 * * * *", timeZone: "UTC", calendars };
    expect(within(() => nextFire(timing, at("2026-01-01T00:00:00Z")))).toEqual(after);
  });

  test("that is included gives its days, and nothing after them", () => {
    const calendars = { timeZone: "UTC", include: [long], exclude: [] };
    const timing: Timing = { kind: "cron", expression: "0 6 * * *", timeZone: "UTC", calendars };
    expect(within(() => firesBetween(timing, at("2025-01-01T00:00:00Z"), END_OF_TIME, 20_000))).toHaveLength(10_000);
    expect(nextFire(timing, after)).toBeNull();
  });
});

describe("a calendar file with hostile recurrences", () => {
  test.each([
    "FREQ=SECONDLY",
    "FREQ=MINUTELY;INTERVAL=1",
    "FREQ=DAILY;COUNT=999999999",
    "FREQ=DAILY;INTERVAL=0",
    "FREQ=YEARLY;UNTIL=99991231",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=31;COUNT=3",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=366",
    "FREQ=YEARLY;BYDAY=53MO;BYWEEKNO=53;BYYEARDAY=366",
    "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=3",
  ])("%s ends in bounded time: refused, or with no more days than a calendar may have", (rule) => {
    const file = [
      "BEGIN:VCALENDAR",
      "VERSION:2.0",
      "PRODID:test",
      "BEGIN:VEVENT",
      "UID:1",
      "DTSTART;VALUE=DATE:20260101",
      `RRULE:${rule}`,
      "END:VEVENT",
      "END:VCALENDAR",
      "",
    ].join("\r\n");
    const { dates, ranges, problems } = within(() => readCalendarFile(file, null));
    const refused = problems.length > 0;
    expect(refused || dates.length + ranges.length <= MAX_CALENDAR_ENTRIES).toBe(true);
  });
});

describe("spreading", () => {
  test("H puts 10,000 schedules of a day into no minute in heaps", () => {
    const load = new Map<string, number>();
    for (let number = 0; number < 10_000; number++) {
      const parsed = parseCron("H H * * *", `team-${number}`);
      if (!parsed.ok) throw new Error(parsed.message);
      const minute = `${parsed.cron.hours}:${parsed.cron.minutes}`;
      load.set(minute, (load.get(minute) ?? 0) + 1);
    }
    // Seven in the mean.
    expect(Math.max(...load.values())).toBeLessThan(30);
    expect(load.size).toBeGreaterThan(1_400);
  });

  test("jitter over a border of days moves the start and no instant, within its maximum", () => {
    const plain = cron("59 23 * * *", "Europe/Berlin");
    const spread: Timing = { ...plain, jitter: { maxMs: 300_000, mode: "random" } };
    expect(fires(spread, "2026-03-27T00:00:00Z", 5)).toEqual(fires(plain, "2026-03-27T00:00:00Z", 5));
    for (const random of [0, 0.5, 1 - Number.EPSILON]) {
      const delay = jitterDelayMs({ maxMs: 300_000, mode: "random" }, { name: "s", random });
      expect(delay).toBeGreaterThanOrEqual(0);
      expect(delay).toBeLessThanOrEqual(300_000);
    }
  });
});

describe("other timings", () => {
  test("an interval is as long as any other while clocks change", () => {
    const every: Timing = { kind: "every", intervalMs: 7 * 60_000, from: "epoch" };
    const found = firesBetween(every, at("2026-10-24T22:00:00Z"), at("2026-10-25T04:00:00Z"), 1_000);
    const gaps = found.slice(1).map((fire, index) => fire.getTime() - (found[index]?.getTime() ?? 0));
    expect(new Set(gaps)).toEqual(new Set([7 * 60_000]));
  });

  test("an instant that has passed at the edit never fires", () => {
    expect(firstFireAfterEdit({ kind: "at", at: "2026-01-01T00:00:00Z" }, at("2026-01-01T00:00:00Z"))).toBeNull();
  });

  test("a year of missed minutes under all runs the newest 50, oldest first", () => {
    const decision = within(() =>
      decideDue(
        { timing: cron("* * * * *"), nextFireAt: at("2025-06-01T00:00:00Z"), misfirePolicy: "all" },
        at("2026-06-01T00:00:30Z"),
      ),
    );
    expect(decision.fires).toHaveLength(50);
    expect(decision.fires[0]).toEqual(at("2026-05-31T23:11:00Z"));
    expect(decision.fires.at(-1)).toEqual(at("2026-06-01T00:00:00Z"));
    expect(decision.nextFireAt).toEqual(at("2026-06-01T00:01:00Z"));
  });
});
