import type { CleanupStore } from "../protocol/ports/workers.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface CleanupOptions extends LoopSurroundings {
  readonly store: CleanupStore;
  /** How long a worker that left is remembered. */
  readonly retainWorkersMs: number;
}

const FOLD_MS = 1_000;
const MINUTE_MS = 60_000;
/** A table that somebody holds on to is tried again then. */
const RETENTION_MS = 600_000;

/**
 * The leader's housekeeping, all of it at the start too: counters every second, workers and coming partitions every minute, which is
 * how long a retention that is new in the files can do without a partition, and what has expired every ten minutes.
 */
export function startCleanup(options: CleanupOptions): readonly Loop[] {
  const { store, clock, retainWorkersMs } = options;
  const every = (name: string, intervalMs: number, work: (signal: AbortSignal) => Promise<unknown>): Loop => {
    let nextMs = clock.monotonicMs();
    return startLoop({
      ...options,
      name,
      cycle: async (signal) => {
        if (clock.monotonicMs() >= nextMs) {
          await work(signal);
          nextMs = clock.monotonicMs() + intervalMs;
        }
        return nextMs - clock.monotonicMs();
      },
    });
  };
  return [
    every("counters", FOLD_MS, (signal) => store.foldCounters(signal)),
    every("workers", MINUTE_MS, () => store.pruneWorkers(retainWorkersMs)),
    // Two loops: a new day's partition must not wait for the dropping of old ones.
    every("partitions", MINUTE_MS, () => store.preparePartitions()),
    every("retention", RETENTION_MS, (signal) => store.dropExpired(signal)),
  ];
}
