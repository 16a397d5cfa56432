import { describe, expect, it } from "vitest";
import type { DeclaredObject } from "../../runtime/config/objects.ts";
import { assumeApplied } from "../../runtime/reconcile/applied-from-files.ts";
import { diffFires, type FireDiffLimits } from "../../runtime/reconcile/fire-diff.ts";
import { renderFireDiff } from "../../runtime/reconcile/fire-diff-text.ts";
import { compareFires } from "../../runtime/reconcile/fire-pairing.ts";
import { planChanges } from "../../runtime/reconcile/plan.ts";
import { COMMENT_MARKER, renderPlanMarkdown } from "../../runtime/reconcile/plan-markdown.ts";
import { renderPlan } from "../../runtime/reconcile/plan-text.ts";
import { cron, desire, job, schedule } from "./desired-fixture.ts";

const BERLIN = "Europe/Berlin";
const SAO_PAULO = "America/Sao_Paulo";

function diff(
  before: readonly DeclaredObject[],
  after: readonly DeclaredObject[],
  range: { from: string; days: number; limits?: FireDiffLimits },
) {
  const from = new Date(range.from);
  const to = new Date(from.getTime() + range.days * 86_400_000);
  const applied = assumeApplied(desire([job("a"), ...before]), from);
  const request = { desired: desire([job("a"), ...after]), applied, from, to };
  return diffFires(range.limits === undefined ? request : { ...request, limits: range.limits });
}

const zoned = (expression: string, timeZone: string) => ({ ...cron(expression, timeZone), timeZone });
const WEEK = { from: "2026-07-06T00:00:00Z", days: 7 };

describe("the fires of two revisions", () => {
  it("pairs the instants that a cron edit moved, and names what came and went beside them", () => {
    const { schedules, ...total } = diff(
      [schedule("s", zoned("0 6 * * 1-5", SAO_PAULO))],
      [schedule("s", zoned("30 7 * * *", SAO_PAULO))],
      WEEK,
    );
    expect(total).toMatchObject({ added: 2, removed: 0, moved: 5 });
    expect(schedules[0]).toMatchObject({
      name: "s",
      timeZone: SAO_PAULO,
      before: 5,
      after: 7,
      added: ["2026-07-11T10:30:00Z", "2026-07-12T10:30:00Z"],
      removed: [],
    });
    expect(schedules[0]?.moved[0]).toEqual({ from: "2026-07-06T09:00:00Z", to: "2026-07-06T10:30:00Z" });
  });

  it("counts a new schedule's fires as added, a removed or suspended one's as removed", () => {
    const off = schedule("off", { suspend: true });
    const result = diff([schedule("gone"), schedule("off")], [schedule("new", cron("0 3 * * *")), off], WEEK);
    expect(result).toMatchObject({ added: 7, removed: 14, moved: 0 });
    expect(result.schedules.map(({ name, notes }) => [name, notes])).toEqual([
      ["gone", ["is removed: fires no more"]],
      ["new", []],
      ["off", ["is suspended: does not fire"]],
    ]);
  });

  it("leaves out what stays as it is, and shows an edit that moves no fire without instants", () => {
    const result = diff(
      [schedule("same"), schedule("edited")],
      [schedule("same"), schedule("edited", { payload: 7 })],
      WEEK,
    );
    expect(result).toMatchObject({ added: 0, removed: 0, moved: 0 });
    expect(result.schedules).toMatchObject([{ name: "edited", before: 7, after: 7 }]);
    expect(result.load.after.fires).toBe(14);
  });

  it("marks the clock changes ahead with what they do to each schedule", () => {
    const { schedules } = diff(
      [],
      [
        schedule("daily", zoned("0 6 * * *", BERLIN)),
        schedule("gap", zoned("30 2 * * *", BERLIN)),
        schedule("open", zoned("*/30 * * * *", BERLIN)),
        schedule("steady", { timing: { kind: "every", intervalMs: 3_600_000, from: "epoch" } }),
      ],
      { from: "2026-03-25T00:00:00Z", days: 10 },
    );
    expect(Object.fromEntries(schedules.map(({ name, notes }) => [name, notes]))).toEqual({
      daily: ["2026-03-29 clock change, 02:00 → 03:00: stays at 06:00 local time, in UTC 05:00 becomes 04:00"],
      gap: [
        "2026-03-29 clock change, 02:00 → 03:00: 02:30 does not exist on this day: fires at the end of the gap, 03:00+02:00",
      ],
      open: ["2026-03-29 clock change, 02:00 → 03:00: fires at 01:30+01:00 before it and at 03:00+02:00 after it"],
      steady: [],
    });
  });

  it("marks the hour that comes twice", () => {
    const { schedules } = diff([], [schedule("s", zoned("30 2 * * *", BERLIN))], {
      from: "2026-10-20T00:00:00Z",
      days: 9,
    });
    expect(schedules[0]?.notes).toEqual([
      "2026-10-25 clock change, 03:00 → 02:00: 02:30 occurs twice on this day: fires at the first, 02:30+02:00",
    ]);
  });

  it("says of a schedule that never fires, or not in this time, that it does not", () => {
    const { schedules } = diff([], [schedule("never", cron("0 0 30 2 *")), schedule("rare", cron("0 0 1 1 *"))], WEEK);
    expect(schedules.map(({ notes }) => notes)).toEqual([
      ["never fires"],
      ["does not fire in this time; the next fire is 2027-01-01T00:00:00+00:00"],
    ]);
  });

  it("shows what a calendar takes away, and how much it leaves out", () => {
    const calendar = { name: "holidays", dates: ["2026-07-08", "2026-07-09"], ranges: [], weekdays: [] };
    const calendars = { timeZone: "UTC", include: [], exclude: [calendar] };
    const timing = { ...cron("0 1 * * *").timing, calendars };
    const { schedules } = diff([schedule("s")], [schedule("s", { timing })], WEEK);
    expect(schedules).toMatchObject([
      {
        before: 7,
        after: 5,
        removed: ["2026-07-08T01:00:00Z", "2026-07-09T01:00:00Z"],
        notes: ["Calendar/holidays leaves out 2 fires, the first at 2026-07-08T01:00:00Z"],
      },
    ]);
  });

  it("does not count what follows from the ends of runs", () => {
    const { schedules } = diff(
      [],
      [schedule("s", { timing: { kind: "every", intervalMs: 40_000, from: "finish" } })],
      WEEK,
    );
    expect(schedules).toMatchObject([
      { before: 0, after: null, notes: ["fires 40 s after the end of each run: its fires cannot be foreseen"] },
    ]);
  });

  it("shows the load and the instants that schedules share, before and after", () => {
    const { load, collisions } = diff(
      [schedule("a", cron("0 1 * * *")), schedule("b", cron("0 2 * * *"))],
      [schedule("a", cron("0 1 * * *")), schedule("b", cron("0 1 * * *")), schedule("c", cron("30 0 1 * * *"))],
      { from: "2026-07-06T00:00:00Z", days: 2 },
    );
    expect(load.before).toMatchObject({ fires: 4, peak: { fires: 1 }, sharedInstants: 0 });
    expect(load.after).toMatchObject({ fires: 6, peak: { at: "2026-07-06T01:00:00Z", fires: 3 }, sharedInstants: 2 });
    expect(collisions).toEqual([
      { at: "2026-07-06T01:00:00Z", schedules: 2, names: ["a", "b"] },
      { at: "2026-07-07T01:00:00Z", schedules: 2, names: ["a", "b"] },
    ]);
  });

  it("compares a schedule that fires every second only as far as it counted, and says how far", () => {
    const limits = { eachSchedule: 1_000, together: 1_500, listed: 10 };
    const result = diff(
      [schedule("s", cron("* * * * * *"))],
      [schedule("s", cron("*/2 * * * * *")), schedule("t", cron("* * * * * *")), schedule("u")],
      { from: "2026-07-06T00:00:00Z", days: 400, limits },
    );
    expect(result.schedules[0]).toMatchObject({
      before: 1_000,
      after: 1_000,
      comparedUntil: "2026-07-06T00:16:40Z",
      counts: { added: 0, removed: 500, moved: 0 },
    });
    expect(result.schedules[0]?.removed).toHaveLength(10);
    expect(result.schedules[0]?.notes[0]).toMatch(/compared until 2026-07-06T00:16:40Z/);
    expect(result.uncounted).toBe(2);
  });
});

describe("pairing", () => {
  const HOUR = 3_600_000;
  const dayOf = (at: number) => String(Math.floor(at / (24 * HOUR)));

  it("pairs each with its nearest where a day lost another number than it gained", () => {
    const result = compareFires(
      [10, 20].map((hour) => hour * HOUR),
      [9, 11, 21].map((hour) => hour * HOUR),
      dayOf,
    );
    expect(result).toEqual({
      kept: 0,
      added: [11 * HOUR],
      removed: [],
      moved: [
        { from: 10 * HOUR, to: 9 * HOUR },
        { from: 20 * HOUR, to: 21 * HOUR },
      ],
    });
  });

  it("calls instants more than a week apart removed and added", () => {
    const result = compareFires([0], [8 * 24 * HOUR], dayOf);
    expect(result).toMatchObject({ added: [8 * 24 * HOUR], removed: [0], moved: [] });
  });

  it("keeps what both have, and accounts for every instant once", () => {
    const before = [1, 2, 3, 30, 55].map((hour) => hour * HOUR);
    const after = [2, 4, 31, 32, 33].map((hour) => hour * HOUR);
    const { kept, added, removed, moved } = compareFires(before, after, dayOf);
    expect(kept).toBe(1);
    expect(kept + removed.length + moved.length).toBe(before.length);
    expect(kept + added.length + moved.length).toBe(after.length);
  });
});

describe("the diff as text and as a comment", () => {
  const edit = () => {
    const from = new Date(WEEK.from);
    const applied = assumeApplied(desire([job("a"), schedule("s", zoned("0 6 * * *", SAO_PAULO))]), from);
    const desired = desire([job("a"), schedule("s", zoned("0 7 * * *", SAO_PAULO)), schedule("x", cron("0 10 * * 1"))]);
    const fires = diffFires({ desired, applied, from, to: new Date("2026-07-13T00:00:00Z") });
    return { plan: planChanges(desired, applied), fires };
  };

  it("shows each fire on the schedule's wall clock and in UTC, and the load as bars", () => {
    const text = renderFireDiff(edit().fires, { colour: false });
    expect(text).toMatch(/^Fires from 2026-07-06 00:00Z to 2026-07-13 00:00Z: 1 added, 0 removed, 7 moved\.\n/);
    expect(text).toContain("    ~ Mon 2026-07-06 06:00-03:00 (09:00Z) → Mon 2026-07-06 07:00-03:00 (10:00Z)\n");
    expect(text).toContain("    ~ … 3 more\n");
    expect(text).toContain("    + Mon 2026-07-06 10:00Z\n");
    expect(text).toMatch(/after {3}▕[ ▁-█]{56}▏ 8 fires, at most 2 a minute, at 2026-07-06 10:00Z/);
    expect(text).toContain("2026-07-06T10:00:00Z  2 at once: s, x");
  });

  it("stands before the line that sums the plan up, and is empty when no schedule changes", () => {
    const { plan, fires } = edit();
    const text = renderPlan(plan, { colour: false, fires });
    expect(text.indexOf("Fires from")).toBeLessThan(text.indexOf("Plan against"));
    expect(renderFireDiff({ ...fires, schedules: [] }, { colour: false })).toBe("");
  });

  it("is a comment that begins with the marker by which the next one finds it", () => {
    const { plan, fires } = edit();
    const text = renderPlanMarkdown(plan, fires);
    expect(text.startsWith(`${COMMENT_MARKER}\n`)).toBe(true);
    expect(text).toContain("**1 to update, 1 to create**");
    expect(text).toContain("| `s` | `America/Sao_Paulo` | 7 fires | 0 / 0 / 7 |");
    expect(text).toContain("- Mon 2026-07-06 06:00-03:00 (09:00Z)\n+ Mon 2026-07-06 07:00-03:00 (10:00Z)  (moved)");
    expect(text.match(/<details>/g)?.length).toBe(text.match(/<\/details>/g)?.length);
  });

  it("keeps the comment below the length that code hosts take, and every fold closed", () => {
    const from = new Date(WEEK.from);
    const many = Array.from({ length: 400 }, (_, index) => schedule(`s${index}`, cron(`${index % 60} * * * *`)));
    const applied = assumeApplied(desire([job("a")]), from);
    const desired = desire([job("a"), ...many]);
    const fires = diffFires({ desired, applied, from, to: new Date("2026-07-13T00:00:00Z") });
    const text = renderPlanMarkdown(planChanges(desired, applied), fires);
    expect(text.length).toBeLessThan(65_536);
    expect(text.match(/<details>/g)?.length).toBe(text.match(/<\/details>/g)?.length);
    expect((text.match(/```/g)?.length ?? 0) % 2).toBe(0);
  });

  it("takes nothing in a file for markup", () => {
    const { plan, fires } = edit();
    const evil = "<img src=x onerror=alert(1)> @everyone [a](https://example.com)";
    const text = renderPlanMarkdown({ ...plan, consequences: [evil], warnings: [evil] }, fires);
    expect(text).not.toContain("<img");
    expect(text).not.toContain("@everyone");
    expect(text).not.toContain("](https");
  });
});
