import { describe, expect, test } from "vitest";
import { parseCron } from "../../runtime/time/cron.ts";
import { decideDue } from "../../runtime/time/due.ts";
import { firesBetween, nextFire, previousFire } from "../../runtime/time/next-fire.ts";
import type { Timing } from "../../runtime/time/timing.ts";

/** Faults that public reports show in peers: cron, time zones and clock changes. */

function fires(expression: string, timeZone: string, from: string, count: number): readonly string[] {
  return firesBetween(cron(expression, timeZone), new Date(from), new Date("9999-01-01T00:00:00Z"), count).map((fire) =>
    fire.toISOString().replace(":00.000Z", "Z"),
  );
}

function cron(expression: string, timeZone: string): Timing {
  return { kind: "cron", expression, timeZone };
}

describe("A01: a daily time in the missing hour", () => {
  test("fires at the end of the gap and goes on", () => {
    expect(fires("30 2 * * *", "Europe/Rome", "2025-03-29T00:00:00Z", 3)).toEqual([
      "2025-03-29T01:30Z",
      "2025-03-30T01:00Z",
      "2025-03-31T00:30Z",
    ]);
  });
});

describe("A04: a half-hourly schedule in the repeated hour", () => {
  test("fires every half hour of real time", () => {
    expect(fires("*/30 * * * *", "Australia/Melbourne", "2026-04-04T14:00:00Z", 6)).toEqual([
      "2026-04-04T14:30Z",
      "2026-04-04T15:00Z",
      "2026-04-04T15:30Z",
      "2026-04-04T16:00Z",
      "2026-04-04T16:30Z",
      "2026-04-04T17:00Z",
    ]);
  });
});

describe("A06: a fixed time in the repeated hour", () => {
  test("fires once, in the first pass", () => {
    expect(fires("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 3)).toEqual([
      "2026-11-01T05:30Z",
      "2026-11-02T06:30Z",
      "2026-11-03T06:30Z",
    ]);
  });

  test("does not fire in the second pass after a restart between the two", () => {
    expect(fires("30 1 * * *", "America/New_York", "2026-11-01T05:45:00Z", 1)).toEqual(["2026-11-02T06:30Z"]);
  });

  test("fires once as a list, too", () => {
    expect(fires("0,30 1 * * *", "America/New_York", "2026-11-01T04:59:00Z", 3)).toEqual([
      "2026-11-01T05:00Z",
      "2026-11-01T05:30Z",
      "2026-11-02T06:00Z",
    ]);
  });
});

describe("A08: midnight around a clock change", () => {
  test("keeps the day after the change", () => {
    expect(fires("0 0 * * *", "Europe/Prague", "2026-03-28T23:30:00Z", 3)).toEqual([
      "2026-03-29T22:00Z",
      "2026-03-30T22:00Z",
      "2026-03-31T22:00Z",
    ]);
  });

  test("fires each day where the change is at midnight", () => {
    expect(fires("0 0 * * *", "America/Santiago", "2026-04-03T12:00:00Z", 4)).toEqual([
      "2026-04-04T03:00Z",
      "2026-04-05T04:00Z",
      "2026-04-06T04:00Z",
      "2026-04-07T04:00Z",
    ]);
  });
});

describe("A10: started in the second pass of the repeated hour", () => {
  test("a minutely schedule fires once a minute", () => {
    const timing = cron("0 * * * * *", "Europe/Amsterdam");
    const started = Date.parse("2026-10-25T01:20:00Z");
    const fired: string[] = [];
    let nextFireAt = nextFire(timing, new Date(started));
    for (let second = 0; second <= 600; second += 1) {
      const now = new Date(started + second * 1_000);
      if (nextFireAt === null || nextFireAt > now) continue;
      const decision = decideDue({ timing, nextFireAt, misfirePolicy: "latest" }, now);
      fired.push(...decision.fires.map((fire) => fire.toISOString().slice(11, 16)));
      nextFireAt = decision.nextFireAt;
    }
    expect(fired).toEqual(["01:21", "01:22", "01:23", "01:24", "01:25", "01:26", "01:27", "01:28", "01:29", "01:30"]);
  });
});

describe("A12: lists and steps of hours at a clock change", () => {
  test("a list of hours stays on the wall clock", () => {
    expect(fires("0 7,9 * * *", "America/Los_Angeles", "2026-03-08T09:00:00Z", 3)).toEqual([
      "2026-03-08T14:00Z",
      "2026-03-08T16:00Z",
      "2026-03-09T14:00Z",
    ]);
  });

  test("a step of hours leaves out the hour that does not exist", () => {
    expect(fires("0 */2 * * *", "America/Toronto", "2026-03-08T05:30:00Z", 4)).toEqual([
      "2026-03-08T08:00Z",
      "2026-03-08T10:00Z",
      "2026-03-08T12:00Z",
      "2026-03-08T14:00Z",
    ]);
    expect(fires("20 */4 * * *", "America/Los_Angeles", "2026-03-08T05:00:00Z", 3)).toEqual([
      "2026-03-08T08:20Z",
      "2026-03-08T11:20Z",
      "2026-03-08T15:20Z",
    ]);
  });
});

describe("A13: weekday 7 and steps of weekdays", () => {
  test("a number before a step is refused by its field", () => {
    expect(parseCron("0 9 * * 2/2")).toMatchObject({ ok: false, field: "day of week" });
  });

  test("6-7 is Saturday and Sunday, 7 is Sunday", () => {
    expect(fires("0 9 * * 6-7", "UTC", "2026-06-01T00:00:00Z", 3)).toEqual([
      "2026-06-06T09:00Z",
      "2026-06-07T09:00Z",
      "2026-06-13T09:00Z",
    ]);
    expect(fires("0 9 * * 7", "UTC", "2026-06-01T00:00:00Z", 3)).toEqual([
      "2026-06-07T09:00Z",
      "2026-06-14T09:00Z",
      "2026-06-21T09:00Z",
    ]);
  });
});

describe("A15: day of month and day of week, both restricted", () => {
  test("either matches", () => {
    expect(fires("0 9 1 * 1", "UTC", "2026-09-01T10:00:00Z", 6)).toEqual([
      "2026-09-07T09:00Z",
      "2026-09-14T09:00Z",
      "2026-09-21T09:00Z",
      "2026-09-28T09:00Z",
      "2026-10-01T09:00Z",
      "2026-10-05T09:00Z",
    ]);
  });
});

describe("A17: waits over 2^31-1 ms", () => {
  // The wait itself is the clock port's, which cuts it; here: a fire that far away is not due before its instant.
  test("a monthly schedule is not due 24 days early", () => {
    const timing = cron("0 4 1 * *", "UTC");
    const nextFireAt = new Date("2026-11-01T04:00:00Z");
    expect(nextFire(timing, new Date("2026-10-02T00:00:00Z"))).toEqual(nextFireAt);
    const early = decideDue({ timing, nextFireAt, misfirePolicy: "latest" }, new Date("2026-10-08T00:00:00Z"));
    expect(early).toMatchObject({ fires: [], nextFireAt });
  });

  test("one instant 60 days ahead is due then and never again", () => {
    const timing: Timing = { kind: "at", at: "2026-12-01T00:00:00Z" };
    const nextFireAt = new Date("2026-12-01T00:00:00Z");
    expect(nextFire(timing, new Date("2026-10-02T00:00:00Z"))).toEqual(nextFireAt);
    const due = decideDue({ timing, nextFireAt, misfirePolicy: "none" }, nextFireAt);
    expect(due).toMatchObject({ fires: [nextFireAt], nextFireAt: null });
  });
});

describe("A19: the previous fire near a clock change", () => {
  test("is the end of the gap, not a day earlier", () => {
    expect(previousFire(cron("0 2 * * *", "America/New_York"), new Date("2026-03-08T07:01:00Z"))).toEqual(
      new Date("2026-03-08T07:00:00Z"),
    );
  });

  test("hourly instants are all different in the repeated hour", () => {
    expect(fires("0 * * * *", "America/New_York", "2026-11-01T04:30:00Z", 4)).toEqual([
      "2026-11-01T05:00Z",
      "2026-11-01T06:00Z",
      "2026-11-01T07:00Z",
      "2026-11-01T08:00Z",
    ]);
  });
});

describe("A21: expressions of other dialects", () => {
  test.each([
    ["0 19-7 * * 1-5", "hour"],
    ["0 1/3 * * *", "hour"],
    ["0 22, 10 * * *", "hour"],
    ["*/90 * * * *", "minute"],
    ["60 * * * *", "minute"],
    ["*/0 * * * *", "minute"],
    ["H 5 * * 3", "minute"],
    ["@every 24h", "expression"],
    ["", "expression"],
    ["1 2 3 4 5 6 7 8", "expression"],
  ])("%j is refused in the %s, never half-read", (expression, field) => {
    expect(parseCron(expression)).toMatchObject({ ok: false, field });
  });

  test("@yearly is the first midnight of the year", () => {
    expect(fires("@yearly", "UTC", "2026-06-01T00:00:00Z", 2)).toEqual(["2027-01-01T00:00Z", "2028-01-01T00:00Z"]);
  });
});
