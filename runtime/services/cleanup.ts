import type { CleanupStore } from "../protocol/ports/workers.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface CleanupOptions extends LoopSurroundings {
  readonly store: CleanupStore;
  /** How long a worker that left is remembered. */
  readonly retainWorkersMs: number;
}

const FOLD_MS = 1_000;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** The leader's housekeeping: counters every second, workers every minute, partitions every hour and at the start. */
export function startCleanup(options: CleanupOptions): readonly Loop[] {
  const { store, clock, retainWorkersMs } = options;
  const every = (name: string, intervalMs: number, work: () => Promise<unknown>): Loop => {
    let nextMs = clock.monotonicMs();
    return startLoop({
      ...options,
      name,
      cycle: async () => {
        if (clock.monotonicMs() >= nextMs) {
          await work();
          nextMs = clock.monotonicMs() + intervalMs;
        }
        return nextMs - clock.monotonicMs();
      },
    });
  };
  return [
    every("counters", FOLD_MS, () => store.foldCounters()),
    every("workers", MINUTE_MS, () => store.pruneWorkers(retainWorkersMs)),
    // Two loops: a new day's partition must not wait for the dropping of old ones.
    every("partitions", HOUR_MS, () => store.preparePartitions()),
    every("retention", HOUR_MS, () => store.dropExpired()),
  ];
}
