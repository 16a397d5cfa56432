import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { needsSeed, parseCron } from "../../runtime/time/cron.ts";
import { firesBetween } from "../../runtime/time/next-fire.ts";
import { hashTiming } from "../../runtime/time/timing-hash.ts";

const name = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,40}$/);

function fields(expression: string, seed: string) {
  const parsed = parseCron(expression, seed);
  if (!parsed.ok) throw new Error(`${parsed.field}: ${parsed.message}`);
  return parsed.cron;
}

describe("H in a cron expression", () => {
  test("is one value of its field, the same for the same name", () => {
    fc.assert(
      fc.property(name, (seed) => {
        const cron = fields("H H H H H H", seed);
        expect(cron.seconds).toHaveLength(1);
        expect(cron.minutes).toHaveLength(1);
        expect(cron.hours).toHaveLength(1);
        expect(cron.months).toHaveLength(1);
        expect(cron.dayOfMonth.days[0]).toBeLessThanOrEqual(28);
        expect(cron.dayOfWeek.weekdays).toHaveLength(1);
        expect(cron.open).toBe(false);
        expect(fields("H H H H H H", seed)).toEqual(cron);
      }),
    );
  });

  test("spreads names over the field, each field apart from the others", () => {
    const minutes = Array.from({ length: 600 }, (_, index) => fields("H * * * *", `job-${index}`).minutes[0] ?? -1);
    const counts = new Map<number, number>();
    for (const minute of minutes) counts.set(minute, (counts.get(minute) ?? 0) + 1);
    expect(counts.size).toBeGreaterThan(55);
    expect(Math.max(...counts.values())).toBeLessThan(30);
    const equal = minutes.filter((minute, index) => fields("* H * * *", `job-${index}`).hours[0] === minute % 24);
    expect(equal.length).toBeLessThan(100);
  });

  test("keeps to its range and its step", () => {
    fc.assert(
      fc.property(name, (seed) => {
        const ranged = fields("H(10-19) H(0-7) * * *", seed);
        expect(ranged.minutes[0]).toBeGreaterThanOrEqual(10);
        expect(ranged.minutes[0]).toBeLessThanOrEqual(19);
        expect(ranged.hours[0]).toBeLessThanOrEqual(7);
        const stepped = fields("H/15 * * * *", seed).minutes;
        expect(stepped).toHaveLength(4);
        expect(stepped.every((minute, index) => index === 0 || minute - (stepped[index - 1] ?? 0) === 15)).toBe(true);
        expect(fields("H(0-29)/10 * * * *", seed).minutes).toHaveLength(3);
      }),
    );
  });

  test("with a step follows real time through clock changes, as any step does", () => {
    expect(fields("H/15 * * * *", "a").open).toBe(true);
  });

  test("fires by the name that the timing carries, which its hash knows", () => {
    const timing = { kind: "cron", expression: "H 5 * * *", timeZone: "UTC", seed: "nightly" } as const;
    const from = new Date("2026-06-01T00:00:00Z");
    const fires = firesBetween(timing, from, new Date("2026-06-03T00:00:00Z"), 10);
    expect(fires).toHaveLength(2);
    expect(fires[0]?.getUTCHours()).toBe(5);
    expect(hashTiming(timing)).not.toBe(hashTiming({ ...timing, seed: "other" }));
  });

  test.each([
    ["H(5-2) * * * *", "minute", "runs forwards"],
    ["H(0-60) * * * *", "minute", "within 0-59"],
    ["H/0 * * * *", "minute", "a step from 1 to 60"],
    ["H(0-9)/20 * * * *", "minute", "a step from 1 to 10"],
    ["H-5 * * * *", "minute", "expected H, H(0-29)"],
    ["* * H(1-32) * *", "day of month", "within 1-31"],
    ["* * * H2 *", "month", "expected H, H(0-29)"],
  ])("%j is refused in the %s", (expression, field, message) => {
    expect(parseCron(expression, "name")).toMatchObject({
      ok: false,
      field,
      message: expect.stringContaining(message) as string,
    });
  });

  test("is told from names of months and weekdays", () => {
    expect(needsSeed("0 0 * MAR THU")).toBe(false);
    expect(needsSeed("@hourly")).toBe(false);
    expect(needsSeed("0 0 * * 1,H")).toBe(true);
    expect(needsSeed("h/5 * * * *")).toBe(true);
    expect(fields("0 0 * MAR THU", "x").months).toEqual([3]);
  });
});
