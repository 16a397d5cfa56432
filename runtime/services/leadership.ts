import type { WorkerId } from "../core/ids.ts";
import type { Duty, WorkerStore } from "../protocol/ports/workers.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface LeadershipOptions extends LoopSurroundings {
  readonly store: Pick<WorkerStore, "holdTerm" | "releaseTerm">;
  readonly workerId: WorkerId;
  readonly duty: Duty;
  /** Asked each time: a worker that may not lead lays the duty down and leaves it to others. Absent: it may. */
  readonly mayLead?: () => boolean;
  /** Starts the work of the duty; called at each taking, its result stopped at each losing. */
  readonly lead: () => readonly Loop[];
}

export interface Leadership {
  isLeading(): boolean;
  /** Work that would wait for its next round starts now, if this worker leads. */
  wake(): void;
  /** Lays the duty down and releases its term, so that another takes it within a second. */
  stop(): Promise<void>;
}

export const TERM_MS = 15_000;
const POLL_MS = 1_000;

/**
 * One duty, led by whoever holds its term in the database. Leading is only about efficiency: everything a leader does
 * is decided once more by its statement, so two leaders for a moment do no harm.
 */
export function startLeadership(options: LeadershipOptions): Leadership {
  const { store, workerId, duty, lead, clock, random, observer, mayLead = () => true } = options;
  let leading: readonly Loop[] | null = null;
  let heldUntilMs = 0;

  const layDown = async (): Promise<void> => {
    if (leading === null) return;
    const loops = leading;
    leading = null;
    observer.observe({ kind: "duty-lost", duty });
    await Promise.all(loops.map((loop) => loop.stop()));
  };

  const release = async (): Promise<void> => {
    await layDown();
    // Not released: the term runs out by itself.
    await store.releaseTerm({ duty, workerId }).catch(() => undefined);
  };

  const loop = startLoop({
    ...options,
    name: `leadership of ${duty}`,
    cycle: async (signal) => {
      if (!mayLead()) {
        if (leading !== null) await release();
        return POLL_MS;
      }
      // Counted from before the question, so it ends before the database gives the duty to another.
      const askedMs = clock.monotonicMs();
      let held: boolean;
      try {
        held = await store.holdTerm({ duty, workerId, termMs: TERM_MS });
      } catch (error) {
        if (clock.monotonicMs() >= heldUntilMs) await layDown();
        throw error;
      }
      if (held) heldUntilMs = askedMs + TERM_MS;
      if (!held) await layDown();
      else if (leading === null && !signal.aborted) {
        observer.observe({ kind: "duty-taken", duty });
        leading = lead();
      }
      return POLL_MS * (0.9 + random.next() / 5);
    },
  });

  return {
    isLeading: () => leading !== null,
    wake() {
      for (const work of leading ?? []) work.wake();
    },
    async stop() {
      await loop.stop();
      if (leading !== null) await release();
    },
  };
}
