import type { LeaseStore } from "../protocol/ports/leases.ts";
import { LeaseWatch } from "./lease-watch.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface RecoveryOptions extends LoopSurroundings {
  readonly store: Pick<LeaseStore, "observeLeases" | "recoverJobs">;
  readonly leaseMs: number;
  readonly intervalMs: number;
  readonly isLeading: () => boolean;
}

/** Jobs recovered by one statement. */
const BATCH = 500;

/**
 * Takes jobs back from workers that are gone. Every worker observes, so that a new leader has already seen a whole
 * lease; only the leader acts, and its statement repeats what it saw as its predicate.
 */
export function startRecovery(options: RecoveryOptions): Loop {
  const { store, clock, observer, leaseMs, intervalMs, isLeading } = options;
  const watch = new LeaseWatch({ leaseMs, intervalMs });
  return startLoop({
    ...options,
    name: "recovery",
    cycle: async (signal) => {
      const askedMs = clock.monotonicMs();
      const seen = await store.observeLeases().catch((error: unknown) => {
        watch.forget();
        throw error;
      });
      const suspects = watch.look(seen, { askedMs, answeredMs: clock.monotonicMs() });
      for (let from = 0; from < suspects.length && isLeading() && !signal.aborted; from += BATCH) {
        for (const { jobId, workerId, next } of await store.recoverJobs(suspects.slice(from, from + BATCH))) {
          observer.observe({ kind: "worker-lost", jobId, workerId, next });
        }
      }
      return intervalMs;
    },
  });
}
