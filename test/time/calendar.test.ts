import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CalendarDays, findCalendarSkip, type ScheduleCalendars } from "../../runtime/time/calendar.ts";
import { decideDue } from "../../runtime/time/due.ts";
import { calendarSkipsBetween, firesBetween, nextFire, previousFire } from "../../runtime/time/next-fire.ts";
import { formatLocal } from "../../runtime/time/time-zone.ts";
import type { Timing } from "../../runtime/time/timing.ts";
import { hashTiming } from "../../runtime/time/timing-hash.ts";

const at = (text: string): Date => new Date(text);

function days(options: Partial<CalendarDays>): CalendarDays {
  return { name: "holidays", dates: [], ranges: [], weekdays: [], ...options };
}

function calendars(options: Partial<ScheduleCalendars>): ScheduleCalendars {
  return { timeZone: "Europe/Berlin", include: [], exclude: [], ...options };
}

function daily(limits: ScheduleCalendars, expression = "0 6 * * *"): Timing {
  return { kind: "cron", expression, timeZone: limits.timeZone, calendars: limits };
}

describe("a calendar that is excluded", () => {
  const christmas = days({ dates: ["2026-12-25", "2026-12-26"] });

  test("leaves out its days, in the schedule's zone", () => {
    const timing = daily(calendars({ exclude: [christmas] }));
    expect(nextFire(timing, at("2026-12-24T12:00:00Z"))).toEqual(at("2026-12-27T05:00:00Z"));
    expect(previousFire(timing, at("2026-12-27T00:00:00Z"))).toEqual(at("2026-12-24T05:00:00Z"));
  });

  test("says which calendar and why", () => {
    const freeze = days({
      name: "freeze",
      ranges: [{ from: "2026-12-24T18:00:00", until: "2026-12-27T00:00:00", reason: "year end" }],
    });
    const limits = calendars({ exclude: [christmas, freeze] });
    expect(findCalendarSkip(limits, at("2026-12-24T17:30:00Z").getTime())).toEqual({
      calendar: "freeze",
      reason: "year end",
    });
    expect(findCalendarSkip(limits, at("2026-12-24T16:59:59Z").getTime())).toBeNull();
    expect(findCalendarSkip(limits, at("2026-12-24T23:00:00Z").getTime())).toEqual({
      calendar: "holidays",
      reason: null,
    });
  });

  test("takes instants with a Z wherever the schedule is", () => {
    const window = days({
      ranges: [{ from: "2026-06-01T10:00:00Z", until: "2026-06-01T12:00:00Z", reason: null }],
    });
    const timing = daily({ ...calendars({ exclude: [window] }), timeZone: "Asia/Tokyo" }, "0 * * * *");
    expect(firesBetween(timing, at("2026-06-01T08:30:00Z"), at("2026-06-01T13:00:00Z"), 10)).toEqual([
      at("2026-06-01T09:00:00Z"),
      at("2026-06-01T12:00:00Z"),
      at("2026-06-01T13:00:00Z"),
    ]);
  });

  test("applies to intervals and to a single instant", () => {
    const exclude = [days({ dates: ["2026-06-01"] })];
    const every: Timing = {
      kind: "every",
      intervalMs: 6 * 3_600_000,
      from: "epoch",
      calendars: calendars({ timeZone: "UTC", exclude }),
    };
    expect(nextFire(every, at("2026-05-31T20:00:00Z"))).toEqual(at("2026-06-02T00:00:00Z"));
    const finish: Timing = { ...every, from: "finish" };
    expect(nextFire(finish, at("2026-05-31T20:00:00Z"))).toEqual(at("2026-06-02T00:00:00Z"));
    const once: Timing = { kind: "at", at: "2026-06-01T10:00:00.000Z", calendars: calendars({ exclude }) };
    expect(nextFire(once, at("2026-05-01T00:00:00Z"))).toBeNull();
  });

  test("that leaves nothing over is found to never fire, in bounded time", () => {
    const exclude = [days({ weekdays: [1, 2, 3, 4, 5] })];
    expect(nextFire(daily(calendars({ exclude }), "0 6 * * 1-5"), at("2026-06-01T00:00:00Z"))).toBeNull();
    const all = [days({ weekdays: [0, 1, 2, 3, 4, 5, 6] })];
    expect(nextFire(daily(calendars({ exclude: all })), at("2026-06-01T00:00:00Z"))).toBeNull();
  });
});

describe("a calendar that is included", () => {
  test("keeps the schedule to its days", () => {
    const include = [days({ dates: ["2026-06-10", "2026-07-10"] })];
    const timing = daily(calendars({ timeZone: "UTC", include }));
    expect(firesBetween(timing, at("2026-06-01T00:00:00Z"), at("2027-06-01T00:00:00Z"), 10)).toEqual([
      at("2026-06-10T06:00:00Z"),
      at("2026-07-10T06:00:00Z"),
    ]);
    expect(nextFire(timing, at("2026-07-10T06:00:00Z"))).toBeNull();
    expect(previousFire(timing, at("2026-06-10T06:00:00Z"))).toBeNull();
  });

  test("adds its days to those of the others that are included, and gives way to what is excluded", () => {
    const include = [days({ weekdays: [1, 2, 3, 4, 5] }), days({ name: "extra", dates: ["2026-06-06"] })];
    const exclude = [days({ name: "holiday", dates: ["2026-06-04"] })];
    const timing = daily(calendars({ timeZone: "UTC", include, exclude }));
    const fires = firesBetween(timing, at("2026-06-01T00:00:00Z"), at("2026-06-08T00:00:00Z"), 10);
    expect(fires.map((fire) => fire.toISOString().slice(8, 10))).toEqual(["01", "02", "03", "05", "06"]);
  });
});

describe("calendars and their schedule", () => {
  const dayOf2026 = fc.integer({ min: 0, max: 364 }).map((day) => {
    return new Date(Date.UTC(2026, 0, 1 + day)).toISOString().slice(0, 10);
  });
  const anyDays = fc
    .record({
      dates: fc.array(dayOf2026, { maxLength: 40 }),
      weekdays: fc.uniqueArray(fc.integer({ min: 0, max: 6 }), { maxLength: 5 }),
      ranges: fc.array(
        fc.tuple(dayOf2026, dayOf2026).map(([one, other]) => {
          const [from = "", until = ""] = [one, other].sort();
          return { from: `${from}T00:00:00`, until: `${until}T12:00:00`, reason: null };
        }),
        { maxLength: 2 },
      ),
    })
    .map((options) =>
      days({ ...options, dates: [...new Set(options.dates)].sort(), weekdays: options.weekdays.sort() }),
    );
  const zone = fc.constantFrom("UTC", "Europe/Berlin", "America/Sao_Paulo", "Africa/Cairo", "Pacific/Auckland");

  /** Word by word over the local text of an instant. */
  function holds(calendar: CalendarDays, instant: Date, timeZone: string): boolean {
    const local = formatLocal(instant, timeZone).slice(0, 19);
    const weekday = new Date(`${local.slice(0, 10)}T00:00:00Z`).getUTCDay();
    return (
      calendar.dates.includes(local.slice(0, 10)) ||
      calendar.weekdays.includes(weekday) ||
      calendar.ranges.some(({ from, until }) => from <= local && local < until)
    );
  }

  test("fire in a year exactly at the instants that a walk over all of them leaves, forwards and backwards", () => {
    fc.assert(
      fc.property(
        zone,
        fc.array(anyDays, { maxLength: 2 }),
        fc.array(anyDays, { maxLength: 2 }),
        fc.constantFrom("0 6 * * *", "30 */5 * * *", "0 0 1,15 * *", "15 12 * * MON"),
        (timeZone, include, exclude, expression) => {
          const limits = calendars({ timeZone, include, exclude });
          const plain: Timing = { kind: "cron", expression, timeZone };
          const [from, to] = [at("2026-01-02T00:00:00Z"), at("2026-12-30T00:00:00Z")];
          const expected = firesBetween(plain, from, to, 10_000).filter(
            (fire) =>
              !exclude.some((calendar) => holds(calendar, fire, timeZone)) &&
              (include.length === 0 || include.some((calendar) => holds(calendar, fire, timeZone))),
          );
          const timing = daily(limits, expression);
          expect(firesBetween(timing, from, to, 10_000)).toEqual(expected);
          const backwards: Date[] = [];
          for (let fire = previousFire(timing, to); fire !== null && fire > from; fire = previousFire(timing, fire)) {
            backwards.unshift(fire);
          }
          expect(backwards).toEqual(expected);
          const left = calendarSkipsBetween(timing, { from, to, limit: 10_000 }).length;
          expect(left + expected.length).toBe(firesBetween(plain, from, to, 10_000).length);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("share one hash while only names, reasons and the order of expressions change", () => {
    const exclude = [days({ ranges: [{ from: "2026-01-01T00:00:00", until: "2026-01-02T00:00:00", reason: "a" }] })];
    const timing: Timing = { ...daily(calendars({ exclude })), others: ["0 9 * * *"] } as Timing;
    const renamed = [{ ...(exclude[0] as CalendarDays), name: "other" }];
    const reordered = { ...timing, expression: "0 9  * * *", others: ["0 6 * * *"] } as Timing;
    expect(hashTiming({ ...reordered, calendars: calendars({ exclude: renamed }) })).toBe(hashTiming(timing));
    const more = [days({ dates: ["2026-05-01"] }), ...exclude];
    expect(hashTiming({ ...timing, calendars: calendars({ exclude: more }) })).not.toBe(hashTiming(timing));
    expect(hashTiming({ ...timing, calendars: calendars({ include: exclude }) })).not.toBe(hashTiming(timing));
  });
});

describe("instants that a calendar leaves out", () => {
  const exclude = [days({ ranges: [{ from: "2026-12-24T00:00:00", until: "2026-12-27T00:00:00", reason: "freeze" }] })];
  const timing = daily(calendars({ timeZone: "UTC", exclude }));

  test("are told with the next fire, each once", () => {
    const nextFireAt = at("2026-12-27T06:00:00Z");
    const decision = decideDue(
      { timing, nextFireAt, misfirePolicy: "latest", decidedUntil: at("2026-12-23T06:00:01Z") },
      nextFireAt,
    );
    expect(decision).toMatchObject({
      fires: [nextFireAt],
      skips: ["24", "25", "26"].map((day) => ({ at: at(`2026-12-${day}T06:00:00Z`), reason: "calendar" })),
      skippedCount: 3,
      nextFireAt: at("2026-12-28T06:00:00Z"),
    });
  });

  test("are not told for the time before the schedule was there", () => {
    const nextFireAt = at("2026-12-27T06:00:00Z");
    const due = { timing, nextFireAt, misfirePolicy: "latest", decidedUntil: at("2026-12-25T12:00:00Z") } as const;
    expect(decideDue(due, nextFireAt).skips).toEqual([{ at: at("2026-12-26T06:00:00Z"), reason: "calendar" }]);
  });

  test("move an interval that counts from the finish to the end of the stretch", () => {
    const finish: Timing = { kind: "every", intervalMs: 60_000, from: "finish", calendars: calendars({ exclude }) };
    const due = { timing: finish, nextFireAt: at("2026-12-24T09:00:00Z"), misfirePolicy: "latest" } as const;
    expect(decideDue(due, at("2026-12-24T09:00:00Z"))).toMatchObject({
      fires: [],
      skips: [{ at: at("2026-12-24T09:00:00Z"), reason: "calendar" }],
      nextFireAt: at("2026-12-26T23:00:00Z"),
    });
  });
});
