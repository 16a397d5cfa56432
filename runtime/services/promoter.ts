import type { ScheduleStore } from "../protocol/ports/schedules.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface PromoterOptions extends LoopSurroundings {
  readonly store: Pick<ScheduleStore, "promoteDue" | "nextDueInMs">;
}

const BATCH = 1_000;
const LONGEST_WAIT_MS = 1_000;
const SHORTEST_WAIT_MS = 20;

/** Moves delayed jobs, retries and released holds into their queues: within a second, and at their instant when it is known. */
export function startPromoter(options: PromoterOptions): Loop {
  const { store } = options;
  return startLoop({
    ...options,
    name: "promoter",
    cycle: async (signal) => {
      while (!signal.aborted && (await store.promoteDue(BATCH)).promoted >= BATCH);
      const dueInMs = (await store.nextDueInMs()) ?? LONGEST_WAIT_MS;
      return Math.max(SHORTEST_WAIT_MS, Math.min(LONGEST_WAIT_MS, dueInMs));
    },
  });
}
