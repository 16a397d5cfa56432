import type { ScheduleStore } from "../protocol/ports/schedules.ts";
import { DueWait } from "./due-wait.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface PromoterOptions extends LoopSurroundings {
  readonly store: Pick<ScheduleStore, "promoteDue" | "nextDueInMs">;
}

const BATCH = 1_000;
const LONGEST_WAIT_MS = 1_000;

/** Moves delayed jobs, retries and released holds into their queues: within a second, and at their instant when it is known. */
export function startPromoter(options: PromoterOptions): Loop {
  const { store } = options;
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
      return wait.after({ moved, dueInMs: await store.nextDueInMs() });
    },
  });
}
