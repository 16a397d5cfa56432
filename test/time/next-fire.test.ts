import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { firesBetween, nextFire, noteClockChange, parseInstant, previousFire } from "../../runtime/time/next-fire.ts";
import { formatLocal, isTimeZone } from "../../runtime/time/time-zone.ts";
import type { Timing } from "../../runtime/time/timing.ts";

const at = (text: string): Date => new Date(text);

function cron(expression: string, timeZone: string): Timing {
  return { kind: "cron", expression, timeZone };
}

describe("an interval anchored at the epoch", () => {
  const timing: Timing = { kind: "every", intervalMs: 300_000, from: "epoch" };

  test("fires at multiples of the interval, strictly after and before the instant asked for", () => {
    expect(nextFire(timing, at("2026-06-01T12:00:00Z"))).toEqual(at("2026-06-01T12:05:00Z"));
    expect(nextFire(timing, at("2026-06-01T12:04:59.999Z"))).toEqual(at("2026-06-01T12:05:00Z"));
    expect(previousFire(timing, at("2026-06-01T12:05:00Z"))).toEqual(at("2026-06-01T12:00:00Z"));
    expect(previousFire(timing, at("1970-01-01T00:00:00Z"))).toBeNull();
  });

  test("gives the same instants to everyone who asks, whatever the interval", () => {
    const interval = fc.integer({ min: 1, max: 400 * 86_400_000 });
    fc.assert(
      fc.property(interval, fc.integer({ min: 0, max: 4_000_000_000_000 }), (intervalMs, instant) => {
        const next = nextFire({ kind: "every", intervalMs, from: "epoch" }, new Date(instant))?.getTime() ?? Number.NaN;
        expect(next % intervalMs).toBe(0);
        expect(next).toBeGreaterThan(instant);
        expect(next - intervalMs).toBeLessThanOrEqual(instant);
      }),
    );
  });
});

describe("an interval from the finish", () => {
  const timing: Timing = { kind: "every", intervalMs: 40_000, from: "finish" };

  test("fires that long after the end of the run", () => {
    expect(nextFire(timing, at("2026-06-01T12:00:07Z"))).toEqual(at("2026-06-01T12:00:47Z"));
  });

  test("tells no fires in advance", () => {
    expect(previousFire(timing, at("2026-06-01T12:00:00Z"))).toBeNull();
    expect(firesBetween(timing, at("2026-06-01T12:00:00Z"), at("2026-07-01T12:00:00Z"), 10)).toEqual([]);
  });
});

describe("one instant", () => {
  const timing: Timing = { kind: "at", at: "2026-06-01T12:00:00Z" };

  test("fires once and is over then", () => {
    expect(nextFire(timing, at("2026-06-01T11:59:59Z"))).toEqual(at("2026-06-01T12:00:00Z"));
    expect(nextFire(timing, at("2026-06-01T12:00:00Z"))).toBeNull();
    expect(previousFire(timing, at("2026-06-01T12:00:00Z"))).toBeNull();
    expect(previousFire(timing, at("2026-06-01T12:00:01Z"))).toEqual(at("2026-06-01T12:00:00Z"));
  });

  test("is read with an offset, and refused without a zone or on a day that does not exist", () => {
    expect(parseInstant("2026-06-01T14:00:00+02:00")).toEqual(at("2026-06-01T12:00:00Z"));
    for (const wrong of ["2026-06-01T12:00:00", "2026-06-01", "2026-02-30T00:00:00Z", "2026-06-01T25:00:00Z", "now"]) {
      expect(() => parseInstant(wrong)).toThrow(expect.objectContaining({ code: "TURNO_TIME_INVALID" }));
    }
  });
});

describe("fires between two instants", () => {
  test("leave out the start, take in the end and stop at the limit", () => {
    const hourly = cron("0 * * * *", "UTC");
    const [from, to] = [at("2026-06-01T12:00:00Z"), at("2026-06-01T15:00:00Z")];
    const all = [at("2026-06-01T13:00:00Z"), at("2026-06-01T14:00:00Z"), to];
    expect(firesBetween(hourly, from, to, 10)).toEqual(all);
    expect(firesBetween(hourly, from, to, 2)).toEqual(all.slice(0, 2));
  });
});

describe("a cron expression in a zone", () => {
  test.each(["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30W 2 *", "0 0 0 31 11 ?"])(
    "%s never fires and says so at once",
    (expression) => {
      const timing = cron(expression, "Europe/Berlin");
      // The best of three: one pause of a busy machine is not the search.
      const waits = [1, 2, 3].map(() => {
        const started = performance.now();
        expect(nextFire(timing, at("2026-01-01T00:00:00Z"))).toBeNull();
        return performance.now() - started;
      });
      expect(Math.min(...waits)).toBeLessThan(50);
      expect(previousFire(timing, at("2026-01-01T00:00:00Z"))).toBeNull();
    },
  );

  test("finds fires that are decades away in either direction", () => {
    const timing = cron("0 12 29 2 *", "America/New_York");
    expect(nextFire(timing, at("2097-01-01T00:00:00Z"))).toEqual(at("2104-02-29T17:00:00Z"));
    expect(previousFire(timing, at("2103-01-01T00:00:00Z"))).toEqual(at("2096-02-29T17:00:00Z"));
    expect(previousFire(timing, at("1970-01-02T00:00:00Z"))).toBeNull();
  });

  test("fires at the end of the gap for a day that a zone left out", () => {
    expect(nextFire(cron("0 12 * * *", "Pacific/Apia"), at("2011-12-30T00:00:00Z"))).toEqual(
      at("2011-12-30T10:00:00Z"),
    );
  });

  test("fires once at the end of the gap for several missing times", () => {
    const fires = firesBetween(
      cron("10-12 2 * * *", "Europe/Berlin"),
      at("2026-03-29T00:00:00Z"),
      at("2026-03-30T00:00:00Z"),
      9,
    );
    expect(fires).toEqual([at("2026-03-29T01:00:00Z")]);
  });

  test("follows real time with a step, in the repeated hour and in the missing one", () => {
    const timing = cron("*/5 2 * * *", "Europe/Berlin");
    expect(firesBetween(timing, at("2026-10-25T00:00:00Z"), at("2026-10-25T12:00:00Z"), 99)).toHaveLength(23);
    expect(firesBetween(timing, at("2026-03-29T00:00:00Z"), at("2026-03-29T12:00:00Z"), 99)).toEqual([]);
  });

  test("counts the year as well as the day of W, L and #", () => {
    const next = (expression: string): Date | null => nextFire(cron(expression, "UTC"), at("2026-07-02T00:00:00Z"));
    expect(next("0 0 1W * *")).toEqual(at("2026-08-03T00:00:00Z"));
    expect(next("0 0 15W 8 *")).toEqual(at("2026-08-14T00:00:00Z"));
    expect(next("0 0 31W 9,10 *")).toEqual(at("2026-10-30T00:00:00Z"));
    expect(next("0 0 LW 1 *")).toEqual(at("2027-01-29T00:00:00Z"));
    expect(next("0 0 * * FRI#5")).toEqual(at("2026-07-31T00:00:00Z"));
    expect(next("0 0 * * MONL")).toEqual(at("2026-07-27T00:00:00Z"));
  });

  test("is refused with the field, as an error, when it does not parse", () => {
    expect(() => nextFire(cron("61 * * * *", "UTC"), at("2026-01-01T00:00:00Z"))).toThrow(
      expect.objectContaining({ code: "TURNO_CRON_INVALID", message: expect.stringContaining("minute") }),
    );
  });

  test("is refused in a zone that does not exist", () => {
    for (const timeZone of ["Europe/Atlantis", "", "local", "+02:00", "Europe/Berlin\n"]) {
      expect(isTimeZone(timeZone)).toBe(false);
      expect(() => nextFire(cron("0 0 * * *", timeZone), at("2026-01-01T00:00:00Z"))).toThrow(
        expect.objectContaining({ code: "TURNO_TIME_INVALID" }),
      );
    }
    expect(isTimeZone("Europe/Berlin")).toBe(true);
    expect(isTimeZone("Etc/GMT+5")).toBe(true);
  });
});

describe("the note of a fire", () => {
  const note = (expression: string, fire: string): string | null =>
    noteClockChange(cron(expression, "Europe/Berlin"), at(fire));

  test("names the time that does not exist, and no time that does", () => {
    expect(note("30 2 * * *", "2026-03-29T01:00:00Z")).toBe(
      "02:30 does not exist on this day: fires at the end of the gap",
    );
    expect(note("0 3 * * *", "2026-03-29T01:00:00Z")).toBeNull();
    expect(note("30 2 * * *", "2026-03-30T00:30:00Z")).toBeNull();
  });

  test("tells the two passes of a repeated hour", () => {
    expect(note("30 2 * * *", "2026-10-25T00:30:00Z")).toBe("02:30 occurs twice on this day: fires at the first");
    expect(note("*/30 * * * *", "2026-10-25T00:30:00Z")).toBe("02:30 occurs twice on this day: this is the first");
    expect(note("*/30 * * * *", "2026-10-25T01:30:00Z")).toBe("02:30 occurs twice on this day: this is the second");
    expect(note("*/30 * * * *", "2026-10-25T02:00:00Z")).toBeNull();
  });
});

test("local times are written with their offset", () => {
  expect(formatLocal(at("2026-03-29T01:00:00Z"), "Europe/Berlin")).toBe("2026-03-29T03:00:00+02:00");
  expect(formatLocal(at("2026-01-01T00:00:00Z"), "America/St_Johns")).toBe("2025-12-31T20:30:00-03:30");
  expect(formatLocal(at("2026-01-01T00:00:00.250Z"), "UTC")).toBe("2026-01-01T00:00:00.250+00:00");
});
