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
/** What the leader has left for so many looks the others take back: it is gone too, or has not seen a whole lease yet. */
const LEADER_LOOKS = 2;

/**
 * Takes jobs back from workers that are gone. Every worker observes, and whoever acts repeats what it saw as its statement's
 * predicate, so it matters to nobody but the database's load that the leader comes first.
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
      const patienceMs = leaseMs + LEADER_LOOKS * intervalMs;
      const due = isLeading() ? suspects : suspects.filter(({ unchangedMs }) => unchangedMs >= patienceMs);
      for (let from = 0; from < due.length && !signal.aborted; from += BATCH) {
        for (const { jobId, workerId, next } of await store.recoverJobs(due.slice(from, from + BATCH))) {
          observer.observe({ kind: "worker-lost", jobId, workerId, next });
        }
      }
      return intervalMs;
    },
  });
}
