import type { ScheduleStore } from "../protocol/ports/schedules.ts";
import { DueWait } from "./due-wait.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface PromoterOptions extends LoopSurroundings {
  readonly store: Pick<ScheduleStore, "promoteDue" | "settleOverlaps" | "nextDueInMs">;
}

const BATCH = 1_000;
const LONGEST_WAIT_MS = 1_000;
/** Runs that wait for others are looked at this often, however often anything else is due. */
const OVERLAP_INTERVAL_MS = 500;

/**
 * Moves delayed jobs, retries and released holds into their queues: within a second, and at their instant when it is
 * known. Runs that another run of their schedule is in the way of go when that has ended.
 */
export function startPromoter(options: PromoterOptions): Loop {
  const { store, clock } = options;
  let settleAtMs = Number.NEGATIVE_INFINITY;
  const wait = new DueWait(LONGEST_WAIT_MS);
  return startLoop({
    ...options,
    name: "promoter",
    cycle: async (signal) => {
      let moved = false;
      for (let more = true; more && !signal.aborted; ) {
        const { promoted } = await store.promoteDue(BATCH);
        moved ||= promoted > 0;
        more = promoted >= BATCH;
      }
      if (!signal.aborted && clock.monotonicMs() >= settleAtMs) {
        settleAtMs = clock.monotonicMs() + OVERLAP_INTERVAL_MS;
        const { cancelled, released } = await store.settleOverlaps(BATCH);
        moved ||= cancelled + released > 0;
      }
      return wait.after({ moved, dueInMs: await store.nextDueInMs() });
    },
  });
}
