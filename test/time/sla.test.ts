import { describe, expect, test } from "vitest";
import { judgeSla, type SlaState } from "../../runtime/time/sla.ts";

const at = (text: string): Date => new Date(text);

const nightly: SlaState = {
  sla: { finishBy: "08:00", maxAgeMs: null },
  timing: { kind: "cron", expression: "0 2 * * *", timeZone: "Europe/Berlin" },
  timeZone: "Europe/Berlin",
  since: at("2026-06-01T00:00:00Z"),
  judgedUntil: at("2026-06-10T05:00:00Z"),
  lastSuccessAt: null,
  successes: [],
};

describe("a run that is to finish by a time of the day", () => {
  test("is missed at that time, in the schedule's zone, and judged once", () => {
    expect(judgeSla(nightly, at("2026-06-10T05:59:59Z"))).toMatchObject({
      misses: [],
      nextDueAt: at("2026-06-10T06:00:00Z"),
    });
    const dueAt = at("2026-06-10T06:00:00Z");
    expect(judgeSla(nightly, dueAt).misses).toEqual([{ expectation: "finish-by", dueAt }]);
    expect(judgeSla({ ...nightly, judgedUntil: dueAt }, at("2026-06-10T12:00:00Z")).misses).toEqual([]);
  });

  test("has come with a success by then, and not with one after it", () => {
    const success = (end: string) => [{ firedFor: at("2026-06-10T00:00:00Z"), finishedAt: at(end) }];
    const now = at("2026-06-10T06:00:02Z");
    expect(judgeSla({ ...nightly, successes: success("2026-06-10T05:59:59Z") }, now).misses).toEqual([]);
    expect(judgeSla({ ...nightly, successes: success("2026-06-10T06:00:01Z") }, now).misses).toHaveLength(1);
  });

  test("is not expected where nothing has fired: on other days, before the schedule was there, in a calendar", () => {
    const now = at("2026-06-10T06:00:00Z");
    const weekly = { ...nightly, timing: { ...nightly.timing, expression: "0 2 * * MON" } as SlaState["timing"] };
    expect(judgeSla(weekly, now).misses).toEqual([]);
    expect(judgeSla({ ...nightly, since: at("2026-06-10T01:00:00Z") }, now).misses).toEqual([]);
    const day = { name: "holiday", dates: ["2026-06-10"], ranges: [], weekdays: [] };
    const calendars = { timeZone: "Europe/Berlin", include: [], exclude: [day] };
    expect(judgeSla({ ...nightly, timing: { ...nightly.timing, calendars } }, now).misses).toEqual([]);
  });

  test("is told for every day that nobody judged", () => {
    const { misses } = judgeSla(nightly, at("2026-06-12T09:00:00Z"));
    expect(misses.map(({ dueAt }) => dueAt.toISOString().slice(0, 10))).toEqual([
      "2026-06-10",
      "2026-06-11",
      "2026-06-12",
    ]);
  });
});

describe("a success of a greatest age", () => {
  const state: SlaState = { ...nightly, sla: { finishBy: null, maxAgeMs: 26 * 3_600_000 } };

  test("is missed that long after the last one, however long that is cleaned up", () => {
    const lastSuccessAt = at("2026-06-09T00:10:00Z");
    const dueAt = at("2026-06-10T02:10:00Z");
    const before = judgeSla({ ...state, lastSuccessAt }, at("2026-06-10T02:09:00Z"));
    expect(before).toMatchObject({ misses: [], nextDueAt: dueAt, lastSuccessAt });
    expect(judgeSla({ ...state, lastSuccessAt }, dueAt).misses).toEqual([{ expectation: "max-age", dueAt }]);
  });

  test("counts from where the schedule began while there is none", () => {
    expect(judgeSla(state, at("2026-06-02T01:59:00Z")).misses).toEqual([]);
    expect(judgeSla(state, at("2026-06-02T02:00:00Z")).misses).toHaveLength(1);
  });

  test("is looked at twice a day at least, so that a success is seen before its job is gone", () => {
    const monthly = { ...state, sla: { finishBy: null, maxAgeMs: 40 * 86_400_000 } };
    expect(judgeSla(monthly, at("2026-06-02T00:00:00Z")).nextDueAt).toEqual(at("2026-06-02T12:00:00Z"));
  });
});
