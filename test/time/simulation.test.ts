import { describe, expect, it } from "vitest";
import { type SimulatedSchedule, simulate } from "../../runtime/time/simulation.ts";

const MINUTE = 60_000;
const schedule = (more: Partial<SimulatedSchedule> = {}): SimulatedSchedule => ({
  name: "s",
  timing: { kind: "every", intervalMs: 10 * MINUTE, from: "epoch" },
  queue: "default",
  overlap: "Allow",
  runMs: [MINUTE],
  ...more,
});

/** Ten minutes apart from 00:10 to 01:00: six fires. */
function play(schedules: readonly SimulatedSchedule[], slots: Readonly<Record<string, number>> = {}) {
  return simulate({
    schedules,
    slots: new Map(Object.entries(slots)),
    from: new Date("2026-12-01T00:00:00Z"),
    to: new Date("2026-12-01T01:00:00Z"),
  });
}

describe("a simulation of schedules and queues", () => {
  it("skips under Forbid while a run is on its way, and none that ends at the instant of the next fire", () => {
    expect(play([schedule({ overlap: "Forbid", runMs: [25 * MINUTE] })]).schedules).toMatchObject([
      { fires: 6, skipped: 4 },
    ]);
    expect(play([schedule({ overlap: "Forbid", runMs: [10 * MINUTE] })]).schedules).toMatchObject([
      { fires: 6, skipped: 0 },
    ]);
  });

  it("holds one run under Queue, and skips those after it", () => {
    const { schedules, queues } = play([schedule({ overlap: "Queue", runMs: [25 * MINUTE] })]);
    // 00:10 runs to 00:35, 00:20 waits and runs to 01:00, 00:30 is skipped, 00:40 waits, 00:50 is skipped, 01:00 waits.
    expect(schedules).toMatchObject([{ fires: 6, skipped: 2 }]);
    expect(queues).toMatchObject([{ mostRunning: 1 }]);
  });

  it("ends the run before under Replace", () => {
    const { schedules, queues } = play([schedule({ overlap: "Replace", runMs: [25 * MINUTE] })]);
    expect(schedules).toMatchObject([{ fires: 6, skipped: 0, replaced: 5 }]);
    expect(queues).toMatchObject([{ mostRunning: 1 }]);
  });

  it("fills a queue's slots, lets the rest wait, and tells the peaks and the longest wait", () => {
    const three = ["a", "b", "c"].map((name) => schedule({ name, runMs: [4 * MINUTE] }));
    expect(play(three, { default: 2 }).queues).toEqual([
      {
        name: "default",
        slots: 2,
        mostRunning: 2,
        mostWaiting: 1,
        mostWaitingAt: Date.parse("2026-12-01T00:10:00Z"),
        longestWaitMs: 4 * MINUTE,
      },
    ]);
    expect(play(three).queues).toMatchObject([{ slots: null, mostRunning: 3, mostWaiting: 0, longestWaitMs: 0 }]);
  });

  it("takes recorded lengths in turn, and keeps queues apart", () => {
    const result = play([
      schedule({ overlap: "Forbid", runMs: [MINUTE, 15 * MINUTE] }),
      schedule({ name: "t", queue: "reports", runMs: [] }),
    ]);
    // 00:10 short, 00:20 long, so 00:30 is skipped; 00:40 short, 00:50 long, so 01:00 is skipped.
    expect(result.schedules[0]).toMatchObject({ skipped: 2 });
    expect(result.queues.map(({ name }) => name)).toEqual(["default", "reports"]);
  });

  it("says where not all fires are there", () => {
    const finish = schedule({ timing: { kind: "every", intervalMs: MINUTE, from: "finish" } });
    expect(play([finish]).schedules).toMatchObject([{ fires: 0, complete: false }]);
  });

  it("keeps its books: no run is lost, and no more run than there are slots", () => {
    const schedules = Array.from({ length: 40 }, (_, index) =>
      schedule({
        name: `s${index}`,
        timing: { kind: "every", intervalMs: (1 + (index % 7)) * MINUTE, from: "epoch" },
        overlap: (["Forbid", "Allow", "Queue", "Replace"] as const)[index % 4] ?? "Allow",
        runMs: [index * 7_000, MINUTE],
      }),
    );
    const { queues } = play(schedules, { default: 5 });
    expect(queues[0]).toMatchObject({ mostRunning: 5 });
    expect(queues[0]?.mostWaiting).toBeGreaterThan(0);
  });
});
