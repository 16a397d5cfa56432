import { describe, expect, it } from "vitest";
import { type Assertion, type AssertionRequest, checkAssertion } from "../../runtime/time/assertions.ts";
import type { Timing } from "../../runtime/time/timing.ts";

const cron = (expression: string, timeZone = "UTC"): Timing => ({ kind: "cron", expression, timeZone });

function check(assertion: Assertion, timings: Readonly<Record<string, Timing>>, more: Partial<AssertionRequest> = {}) {
  const { failures, failureCount, unknown, fires } = checkAssertion({
    assertion,
    schedules: Object.entries(timings).map(([name, timing]) => ({ name, timing, timeZone: "UTC" })),
    from: new Date("2026-12-01T00:00:00Z"),
    to: new Date("2027-03-01T00:00:00Z"),
    timeZone: null,
    holidays: [],
    ...more,
  });
  return { failures, failureCount, unknown, fires };
}
const firesOn = (days: (Assertion & { kind: "firesOn" })["days"], more = {}): Assertion => ({
  kind: "firesOn",
  days,
  times: 1,
  at: null,
  otherDays: "none",
  ...more,
});

describe("what schedules are expected to hold to", () => {
  it("holds when a schedule fires once on each last business day, and on no other", () => {
    expect(check(firesOn("last-business-day", { at: "18:00" }), { s: cron("0 18 LW * *") })).toEqual({
      failures: [],
      failureCount: 0,
      unknown: [],
      fires: 3,
    });
  });

  it("names each day that lacks its fire, and each fire on a day that is none", () => {
    const { failures } = check(firesOn("last-business-day"), { s: cron("0 18 L * *") });
    // 31 January 2027 is a Sunday, and so is 28 February.
    expect(failures).toEqual([
      "Schedule/s: expected 1 fire on Friday 2027-01-29 (last-business-day), found none",
      "Schedule/s: expected no fire on Sunday 2027-01-31, which is none of last-business-day, found 1: 2027-01-31T18:00:00+00:00 (2027-01-31T18:00:00Z)",
      "Schedule/s: expected 1 fire on Friday 2027-02-26 (last-business-day), found none",
      "Schedule/s: expected no fire on Sunday 2027-02-28, which is none of last-business-day, found 1: 2027-02-28T18:00:00+00:00 (2027-02-28T18:00:00Z)",
    ]);
  });

  it("takes the days of calendars for no business days", () => {
    const holidays = [{ name: "holidays", dates: ["2026-12-31"], ranges: [], weekdays: [] }];
    const { failures } = check(firesOn("last-business-day"), { s: cron("0 18 LW * *") }, { holidays });
    expect(failures).toHaveLength(2);
    expect(failures[0]).toContain("expected 1 fire on Wednesday 2026-12-30");
  });

  it("judges fires of a day by their number, their time and the zone", () => {
    expect(check(firesOn("mondays", { times: 2 }), { s: cron("0 9 * * MON") }).failures[0]).toMatch(
      /expected 2 fires on Monday 2026-12-07 \(mondays\), found 1: 2026-12-07T09:00/,
    );
    expect(check(firesOn("mondays", { at: "10:00" }), { s: cron("0 9 * * MON") }).failures[0]).toMatch(
      /expected the fire at 10:00 on Monday 2026-12-07, found 2026-12-07T09:00/,
    );
    const berlin = { timeZone: "Europe/Berlin" };
    expect(check(firesOn("tuesdays", { at: "00:30" }), { s: cron("30 23 * * MON") }, berlin).failureCount).toBe(0);
    expect(check(firesOn("mondays", { otherDays: "any" }), { s: cron("0 9 * * *") }).failureCount).toBe(0);
  });

  it.each([
    ["first-day", "0 9 1 * *"],
    ["last-day", "0 9 L * *"],
    ["every-day", "0 9 * * *"],
    ["business-days", "0 9 * * 1-5"],
    ["weekends", "0 9 * * 6,0"],
    ["first-business-day", "0 9 1W * *"],
    ["sundays", "0 9 * * 7"],
  ] as const)("knows %s", (days, expression) => {
    expect(check(firesOn(days), { s: cron(expression) }).failures).toEqual([]);
  });

  it("counts the fires of all schedules together in each minute", () => {
    const atMost: Assertion = { kind: "atMost", fires: 2, per: "minute" };
    const two = { a: cron("0 9 * * *"), b: cron("0 9 * * *") };
    expect(check(atMost, two).failureCount).toBe(0);
    const { failures, failureCount } = check(atMost, { ...two, c: cron("30 0 9 1 12 *") });
    expect([failures, failureCount]).toEqual([
      ["expected at most 2 fires in the minute of 2026-12-01T09:00:00Z, found 3: a, b, c"],
      1,
    ]);
    expect(check({ ...atMost, per: "day" }, { a: cron("0 */8 * * *") }).failures[0]).toMatch(
      /expected at most 2 fires on Tuesday 2026-12-01, found 3: a|expected at most 2 fires on Wednesday 2026-12-02/,
    );
  });

  it("finds fires in a stretch of the day, also over midnight", () => {
    const never: Assertion = { kind: "never", days: "business-days", from: "08:00", to: "18:00" };
    const berlin = { timeZone: "Europe/Berlin" };
    expect(check(never, { s: cron("0 7 * * *") }, berlin).failures[0]).toBe(
      "Schedule/s: expected no fire from 08:00 to 18:00 on business-days in Europe/Berlin, found 2026-12-01T08:00:00+01:00 (2026-12-01T07:00:00Z)",
    );
    expect(check(never, { s: cron("0 17 * * *"), w: cron("0 12 * * 0") }, berlin).failureCount).toBe(0);
    const night: Assertion = { kind: "never", days: "fridays", from: "22:00", to: "02:00" };
    expect(check(night, { s: cron("0 1 * * SAT") }).failureCount).toBe(13);
    expect(check(night, { s: cron("0 1 * * FRI") }).failureCount).toBe(0);
    expect(check({ ...night, from: null, to: null }, { s: cron("0 1 * * FRI") }).failureCount).toBe(13);
  });

  it("compares named instants, and what lies between them", () => {
    const firesAt: Assertion = {
      kind: "firesAt",
      instants: [new Date("2027-01-01T09:00:00Z"), new Date("2027-01-03T09:00:00Z"), new Date("2027-01-03T10:00:00Z")],
    };
    expect(check(firesAt, { s: cron("0 9 * * *") }).failures).toEqual([
      "Schedule/s: expected a fire at 2027-01-03T10:00:00Z, found none",
      "Schedule/s: expected no fire at 2027-01-02T09:00:00Z, between those named, found one",
    ]);
  });

  it("finds gaps, the beginning and the end included", () => {
    const atLeastEvery: Assertion = { kind: "atLeastEvery", intervalMs: 26 * 3_600_000 };
    expect(check(atLeastEvery, { s: cron("0 9 * * *") }).failureCount).toBe(0);
    expect(check(atLeastEvery, { s: cron("0 9 30 2 *") }).failures).toEqual([
      "Schedule/s: expected a fire at least every 1 d 2 h, found none from 2026-12-01T00:00:00Z to 2027-03-01T00:00:00Z",
    ]);
  });

  it("says what it could not look at, and counts failures beyond those it names", () => {
    const finish: Timing = { kind: "every", intervalMs: 40_000, from: "finish" };
    expect(check(firesOn("every-day"), { f: finish }).unknown).toEqual([
      "Schedule/f fires when its runs end, which cannot be foreseen",
    ]);
    const result = check(firesOn("every-day"), { s: cron("* * * * * *") });
    expect(result.unknown[0]).toMatch(/fires too often: it was looked at until 2026-12-02T03:46:40Z only/);
    const most = check(
      { kind: "atMost", fires: 1, per: "minute" },
      { s: cron("*/20 * * * *"), t: cron("*/20 * * * *") },
    );
    expect(most.failures).toHaveLength(20);
    expect(most.failureCount).toBe(90 * 72);
  });
});
