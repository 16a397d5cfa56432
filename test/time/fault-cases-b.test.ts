import { describe, expect, test } from "vitest";
import { decideDue, firstFireAfterEdit } from "../../runtime/time/due.ts";
import type { Timing } from "../../runtime/time/timing.ts";
import { hashTiming } from "../../runtime/time/timing-hash.ts";

/** Faults that public reports show in peers: edits, pauses and catch-up, as far as they are decided without a database. */

function cron(expression: string): Timing {
  return { kind: "cron", expression, timeZone: "UTC" };
}

describe("B01: an edited cron", () => {
  test("does not fire for an instant of the new rule before the edit", () => {
    const edited = new Date("2026-06-01T15:00:00Z");
    const nextFireAt = firstFireAfterEdit(cron("0 2 * * *"), edited);
    expect(nextFireAt).toEqual(new Date("2026-06-02T02:00:00Z"));
  });
});

describe("B03: an edit in force at once", () => {
  test("fires by the new rule from the apply on, not after the old instant", () => {
    expect(hashTiming(cron("0 0 3 * * *"))).not.toBe(hashTiming(cron("*/10 * * * * *")));
    expect(firstFireAfterEdit(cron("*/10 * * * * *"), new Date("2026-06-01T12:00:00Z"))).toEqual(
      new Date("2026-06-01T12:00:10Z"),
    );
  });
});

describe("B05: an edit of the payload alone", () => {
  // The hash takes a timing and nothing else, so that no other field can move the next fire.
  test("leaves the hash and with it the next fire", () => {
    expect(hashTiming(cron("0 3 * * *"))).toBe(hashTiming({ ...cron("0 3 * * *") }));
  });
});

describe("B07: resuming a paused schedule", () => {
  test("owes nothing for the pause: the first fire is after the resume", () => {
    const resumed = new Date("2026-06-01T12:02:10Z");
    expect(firstFireAfterEdit(cron("* * * * *"), resumed)).toEqual(new Date("2026-06-01T12:03:00Z"));
  });
});

describe("B09: a change of leader around an instant", () => {
  test.each(["latest", "none"] as const)("fires it once under %s, late but not missed", (misfirePolicy) => {
    const nextFireAt = new Date("2026-06-01T10:00:00Z");
    const decision = decideDue(
      { timing: cron("0 10 * * *"), nextFireAt, misfirePolicy },
      new Date("2026-06-01T10:00:00.740Z"),
    );
    expect(decision).toEqual({
      fires: [nextFireAt],
      skips: [],
      skippedCount: 0,
      skippedCountExact: true,
      nextFireAt: new Date("2026-06-02T10:00:00Z"),
    });
  });
});

describe("B11: two rules during a rolling deploy", () => {
  // Which revision may write is the database's; the hash in the compare-and-set tells the two rules apart.
  test("have different hashes", () => {
    expect(hashTiming(cron("0 * * * *"))).not.toBe(hashTiming(cron("30 * * * *")));
  });
});

describe("B13: half an hour without a scheduler", () => {
  test("runs a minutely schedule once and names what it skips", () => {
    const nextFireAt = new Date("2026-06-01T12:01:00Z");
    const decision = decideDue(
      { timing: cron("* * * * *"), nextFireAt, misfirePolicy: "latest" },
      new Date("2026-06-01T12:30:05Z"),
    );
    expect(decision.fires).toEqual([new Date("2026-06-01T12:30:00Z")]);
    expect(decision.skips).toHaveLength(29);
    expect(decision.skips.every(({ reason }) => reason === "superseded")).toBe(true);
    expect(decision).toMatchObject({ skippedCount: 29, skippedCountExact: true });
    expect(decision.nextFireAt).toEqual(new Date("2026-06-01T12:31:00Z"));
  });
});
