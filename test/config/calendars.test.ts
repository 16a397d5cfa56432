import { describe, expect, test } from "vitest";
import { nextFire } from "../../runtime/time/next-fire.ts";
import { hashTiming } from "../../runtime/time/timing-hash.ts";
import { declare, find, load, places } from "./project-files.ts";

const JOB = declare("Job", "x", "{ handler: builtin/command, settings: { command: [ls] } }");

function ics(...events: readonly string[]): string {
  const lines = events.flatMap((event) => ["BEGIN:VEVENT", ...event.split("\n"), "END:VEVENT"]);
  return ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:test", ...lines, "END:VCALENDAR", ""].join("\r\n");
}

function loadCalendar(spec: string, file?: string) {
  const others = file === undefined ? {} : { "calendars/days.ics": file };
  const { state, problems } = load(declare("Calendar", "days", spec), { others });
  return { spec: state === null ? null : find(state.objects, "Calendar", "days").spec, problems };
}

function importDays(file: string, more = "") {
  return loadCalendar(`{ ics: ../calendars/days.ics${more} }`, file);
}

describe("a Calendar", () => {
  test("holds its days sorted, ranges with their ends, and weekdays by number", () => {
    const { spec } = loadCalendar(
      `{ dates: ["2027-01-01", "2026-12-25", "2026-12-25"], weekdays: [SUN, SAT], validUntil: 2027-12-31,
         ranges: [{ from: 2026-12-24, to: 2026-12-26, reason: freeze }, { from: "2026-06-01T18:00", to: "2026-06-02T06:30:15" },
                  { from: "2026-07-01T10:00:00-03:00", to: "2026-07-01T20:00Z" }] }`,
    );
    expect(spec).toEqual({
      dates: ["2026-12-25", "2027-01-01"],
      ranges: [
        { from: "2026-12-24T00:00:00", until: "2026-12-27T00:00:00", reason: "freeze" },
        { from: "2026-06-01T18:00:00", until: "2026-06-02T06:30:15", reason: null },
        { from: "2026-07-01T13:00:00.000Z", until: "2026-07-01T20:00:00.000Z", reason: null },
      ],
      weekdays: [0, 6],
      ics: null,
      validUntil: "2027-12-31",
      appliesTo: null,
    });
  });

  test.each([
    ['{ dates: ["2026-02-30"] }', "/spec/dates/0", "a day that exists"],
    ['{ dates: ["26-02-03"] }', "/spec/dates/0", "a date such as"],
    ["{ ranges: [{ from: 2026-12-26, to: 2026-12-24 }] }", "/spec/ranges/0", "an end after 2026-12-26"],
    ['{ ranges: [{ from: "2026-12-24T18:00Z", to: 2026-12-26 }] }', "/spec/ranges/0", "both with an offset"],
    ['{ ranges: [{ from: "2026-12-24T25:00", to: 2026-12-26 }] }', "/spec/ranges/0", "an instant"],
    ["{ weekdays: [MONDAY] }", "/spec/weekdays/0", "MON"],
    ["{ validUntil: 2026-13-01 }", "/spec/validUntil", "a day that exists"],
    ["{ ics: none.ics }", "/spec/ics", "turno.d/none.ics, found no such file"],
    ["{ days: [] }", "/spec/days", "days"],
  ])("%s is refused at its field", (spec, path, message) => {
    const { problems } = loadCalendar(spec);
    expect(problems).toMatchObject([{ path, severity: "error" }]);
    expect(problems[0]?.message).toContain(message);
  });

  test("that ends soon or has ended is told about, on the day on which it is read", () => {
    const text = declare("Calendar", "days", "{ validUntil: 2026-12-31 }");
    const told = (today: string) => load(text, { today }).problems.map(({ severity, message }) => [severity, message]);
    expect(told("2026-11-30")).toEqual([]);
    expect(told("2026-12-01")).toEqual([["warning", "the calendar days runs out on 2026-12-31, in 30 days"]]);
    expect(told("2027-01-01")).toEqual([
      ["warning", "the calendar days ran out on 2026-12-31: what it does not know it does not leave out"],
    ]);
    const hashes = ["2026-11-30", "2027-01-01"].map((today) => load(text, { today }).state?.contentHash);
    expect(hashes[0]).toBe(hashes[1]);
  });
});

describe("a calendar file", () => {
  test("gives whole days, their reasons, and days in a row", () => {
    const { spec } = importDays(
      ics(
        "UID:1\nDTSTART;VALUE=DATE:20261225\nSUMMARY:Natal",
        "UID:2\nDTSTART;VALUE=DATE:20270101",
        "UID:3\nDTSTART;VALUE=DATE:20261228\nDTEND;VALUE=DATE:20261231\nSUMMARY:Freeze",
        "UID:4\nDTSTART;VALUE=DATE:20260901\nSTATUS:CANCELLED",
      ),
    );
    expect(spec?.dates).toEqual(["2027-01-01"]);
    expect(spec?.ranges).toEqual([
      { from: "2026-12-25T00:00:00", until: "2026-12-26T00:00:00", reason: "Natal" },
      { from: "2026-12-28T00:00:00", until: "2026-12-31T00:00:00", reason: "Freeze" },
    ]);
  });

  test("writes out recurrences with their exceptions and changed occurrences", () => {
    const { spec } = importDays(
      ics(
        "UID:1\nDTSTART;VALUE=DATE:20260105\nRRULE:FREQ=WEEKLY;COUNT=4\nEXDATE;VALUE=DATE:20260112\nRDATE;VALUE=DATE:20260301",
        "UID:1\nRECURRENCE-ID;VALUE=DATE:20260119\nDTSTART;VALUE=DATE:20260120",
      ),
    );
    expect(spec?.dates).toEqual(["2026-01-05", "2026-01-20", "2026-01-26", "2026-03-01"]);
  });

  test("leaves out the days that a year or a month does not have", () => {
    const until = ", validUntil: 2029-12-31";
    const leap = importDays(ics("UID:1\nDTSTART;VALUE=DATE:20240229\nRRULE:FREQ=YEARLY"), until);
    expect(leap.spec?.dates).toEqual(["2024-02-29", "2028-02-29"]);
    const never = importDays(
      ics("UID:1\nDTSTART;VALUE=DATE:20260228\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"),
      until,
    );
    expect(never.spec?.dates).toEqual([]);
  });

  test("takes times by their zone: none is the schedule's, others are instants", () => {
    const { spec } = importDays(
      ics(
        "UID:1\nDTSTART:20261224T180000\nDTEND:20261226T060000",
        "UID:2\nDTSTART:20261224T180000Z\nDTEND:20261224T190000Z",
        "UID:3\nDTSTART;TZID=America/Sao_Paulo:20261224T180000\nDTEND;TZID=America/Sao_Paulo:20261224T190000",
      ),
    );
    expect(spec?.ranges).toEqual([
      { from: "2026-12-24T18:00:00", until: "2026-12-26T06:00:00", reason: null },
      { from: "2026-12-24T18:00:00.000Z", until: "2026-12-24T19:00:00.000Z", reason: null },
      { from: "2026-12-24T21:00:00.000Z", until: "2026-12-24T22:00:00.000Z", reason: null },
    ]);
  });

  test.each([
    ["", "no calendar in the iCalendar format"],
    ["hello", "no calendar in the iCalendar format"],
    ["BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nEND:VCALENDAR", "no calendar in the iCalendar format"],
    [ics("UID:1\nSUMMARY:Party"), 'the event "Party" has no DTSTART'],
    [ics("UID:1\nDTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY"), 'the event "1" repeats without an end'],
    [ics("UID:1\nDTSTART:20260101T000000Z\nRRULE:FREQ=SECONDLY;COUNT=100000"), "more than"],
    [ics("UID:1\nDTSTART;TZID=Mars/Olympus:20260101T000000"), "a time zone that neither"],
    [ics("UID:1\nDTSTART;VALUE=DATE:20260101\nRRULE:FREQ=SECONDLY;COUNT=3"), "cannot be read"],
  ])("%j is refused with what is wrong", (file, message) => {
    const { problems } = importDays(file);
    expect(problems).toMatchObject([{ code: "TURNO_CALENDAR_FILE", path: "/spec/ics", severity: "error" }]);
    expect(problems[0]?.message).toContain(message);
    expect(problems[0]?.message).toContain("calendars/days.ics");
  });
});

describe("a Schedule with calendars", () => {
  const days = declare("Calendar", "days", '{ dates: ["2026-06-02"] }');
  const freeze = declare("Calendar", "freeze", '{ dates: ["2026-06-03"], appliesTo: { labels: { team: billing } } }');

  function schedule(spec: string, labels = "{}"): string {
    return `apiVersion: turno/v1\nkind: Schedule\nmetadata: { name: s, labels: ${labels} }\nspec: ${spec}\n`;
  }

  function timing(documents: readonly string[]) {
    const { state, problems } = load([JOB, ...documents].join("---\n"));
    if (state === null) throw new Error(places(problems).join("; "));
    return find(state.objects, "Schedule", "s").spec.timing;
  }

  const from = new Date("2026-06-01T12:00:00Z");

  test("keeps to their days in its zone", () => {
    const excluding = timing([days, schedule("{ job: x, cron: 0 6 * * *, calendars: { exclude: [days] } }")]);
    expect(nextFire(excluding, from)).toEqual(new Date("2026-06-03T06:00:00Z"));
    const including = timing([days, schedule("{ job: x, cron: 0 6 * * *, calendars: { include: [days] } }")]);
    expect(nextFire(including, from)).toEqual(new Date("2026-06-02T06:00:00Z"));
  });

  test("is frozen with its group by the labels, and only with all of them", () => {
    const frozen = timing([freeze, schedule("{ job: x, cron: 0 6 3 6 * }", "{ team: billing, heavy: yes }")]);
    expect(nextFire(frozen, from)).toEqual(new Date("2027-06-03T06:00:00Z"));
    const other = timing([freeze, schedule("{ job: x, cron: 0 6 3 6 * }", "{ team: ops }")]);
    expect(other.calendars).toBeUndefined();
    const everyone = freeze.replace("{ team: billing }", "{}");
    expect(timing([everyone, schedule("{ job: x, cron: 0 6 3 6 * }")]).calendars?.exclude).toHaveLength(1);
  });

  test("has another timing when its days change, so that an edit of a calendar moves the next fire", () => {
    const spec = "{ job: x, cron: 0 6 * * *, calendars: { exclude: [days] } }";
    const hash = (calendar: string) => hashTiming(timing([calendar, schedule(spec)]));
    expect(hash(days)).toBe(hash(days));
    expect(hash(days.replace("06-02", "06-04"))).not.toBe(hash(days));
  });

  test("names only calendars that are there", () => {
    const { problems } = load(
      [JOB, days, schedule("{ job: x, every: 5m, calendars: { include: [days], exclude: [day] } }")].join("---\n"),
    );
    expect(problems).toMatchObject([
      { code: "TURNO_CONFIG_UNKNOWN_OBJECT", path: "/spec/calendars/exclude/0", hint: expect.stringContaining("days") },
    ]);
  });

  test("that never fires for its calendars is warned about", () => {
    const weekend = declare("Calendar", "weekend", "{ weekdays: [SAT, SUN] }");
    const { problems } = load(
      [JOB, weekend, schedule("{ job: x, cron: 0 6 * * 6, calendars: { exclude: [weekend] } }")].join("---\n"),
    );
    expect(problems).toMatchObject([{ severity: "warning", path: "/spec/calendars" }]);
    expect(problems[0]?.message).toContain("never fires");
  });
});

describe("the other fields of a Schedule's time", () => {
  const spec = (text: string) => {
    const { state, problems } = load(`${JOB}---\n${declare("Schedule", "s", text)}`);
    if (state === null) throw new Error(places(problems).join("; "));
    return find(state.objects, "Schedule", "s").spec;
  };

  test("are read with their units, and absent where they are not said", () => {
    expect(
      spec(
        `{ job: x, cron: ["0 6 * * *", "H 9 * * 6"], dst: { gap: skip }, jitter: { max: 5m }, concurrencyPolicy: Allow,
           misfirePolicy: all, startingDeadline: 2h, maxCatchupRuns: 7, sla: { finishBy: "08:00", maxAge: 26h, notify: x } }`,
      ),
    ).toMatchObject({
      timing: {
        kind: "cron",
        expression: "0 6 * * *",
        others: ["H 9 * * 6"],
        seed: "s",
        dst: { gap: "skip" },
        jitter: { maxMs: 300_000, mode: "stable" },
      },
      startingDeadlineMs: 7_200_000,
      maxCatchupRuns: 7,
      sla: { finishBy: "08:00", maxAgeMs: 93_600_000, notify: "x" },
    });
    expect(Object.keys(spec("{ job: x, cron: 0 6 * * * }"))).not.toContain("startingDeadlineMs");
    expect(spec("{ job: x, cron: 0 6 * * * }").timing).toEqual({
      kind: "cron",
      expression: "0 6 * * *",
      timeZone: "UTC",
    });
  });

  test.each([
    ["{ job: x, every: 5m, dst: { gap: skip } }", "/spec/dst", "only cron expressions"],
    ["{ job: x, every: 5m, misfirePolicy: none, startingDeadline: 1h }", "/spec/startingDeadline", "no missed instant"],
    ["{ job: x, every: 5m, maxCatchupRuns: 3 }", "/spec/maxCatchupRuns", "only with misfirePolicy: all"],
    ["{ job: x, every: 5m, sla: {} }", "/spec/sla", "finishBy or maxAge"],
    ['{ job: x, every: { interval: 5m, from: finish }, sla: { finishBy: "08:00" } }', "/spec/sla", "expected maxAge"],
    ["{ job: x, every: 5m, sla: { maxAge: 1h, notify: alert } }", "/spec/sla", "Job/alert"],
    ['{ job: x, every: 5m, sla: { finishBy: "8:00" } }', "/spec/sla/finishBy", "a time of the day"],
    ["{ job: x, cron: [] }", "/spec/cron", "at least 1"],
    ['{ job: x, cron: ["0 6 * * *", "61 * * * *"] }', "/spec/cron/1", 'the field "minute"'],
    ["{ job: x, every: 5m, jitter: { max: 2d } }", "/spec/jitter/max", "1d"],
  ])("%s is refused at its field", (text, path, message) => {
    const { problems } = load(`${JOB}---\n${declare("Schedule", "s", text)}`);
    expect(problems).toMatchObject([{ path, severity: "error" }]);
    expect(problems[0]?.message).toContain(message);
  });

  test.each([
    ["{ job: x, every: 5m, jitter: { max: 5m } }", "/spec/jitter/max"],
    ["{ job: x, cron: 0 6 * * *, misfirePolicy: all }", "/spec/misfirePolicy"],
  ])("%s is warned about", (text, path) => {
    const { problems } = load(`${JOB}---\n${declare("Schedule", "s", text)}`);
    expect(problems).toMatchObject([{ path, severity: "warning" }]);
  });
});
