import type { OutboxStore } from "../protocol/ports/outbox.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface RedispatchOptions extends LoopSurroundings {
  readonly store: Pick<OutboxStore, "loadInstallation" | "writeMarkers" | "redispatchJobs" | "readOutbox">;
  /** The outbox has got new messages. */
  readonly onWritten?: () => void;
}

const INTERVAL_MS = 10_000;
/** A job that has waited longer gets a marker behind it. */
const AGED_MS = 60_000;
/** The marker may have been lost with what was before it; where nobody takes a queue, they become rarer. */
const MARK_AGAIN_MS = 120_000;
const LONGEST_MARK_AGAIN_MS = 600_000;
/** What came out of a queue before its marker has been claimed by then. */
const SETTLED_MS = 10_000;
/** Messages in one statement. */
const BATCH = 10_000;
/** An outbox whose oldest message is older is an alarm, told of once a minute. */
const BEHIND_MS = 60_000;

/**
 * The leader's care for what brokers lose. A marker goes behind a queue's old jobs; what is still in the queue when it has come out was lost, and is
 * published again with the same token. However long a queue is, nothing of it is published again for its age alone.
 */
export function startRedispatch(options: RedispatchOptions): Loop {
  const { store, clock, observer, onWritten = () => {} } = options;
  let toldBehindMs: number | null = null;

  return startLoop({
    ...options,
    name: "redispatch",
    cycle: async (signal) => {
      // By the database's word and not by the leader's settings: one that has no broker leads for those that have.
      if ((await store.loadInstallation()).transport === "postgres") return INTERVAL_MS;
      let written = 0;
      while (!signal.aborted) {
        const shown = await store.redispatchJobs({ settledMs: SETTLED_MS, limit: BATCH });
        if (shown === null) break;
        written += shown.jobs;
        if (shown.jobs > 0) observer.observe({ kind: "redispatched", ...shown });
      }
      if (!signal.aborted) {
        written += await store.writeMarkers({
          agedMs: AGED_MS,
          againMs: MARK_AGAIN_MS,
          longestMs: LONGEST_MARK_AGAIN_MS,
        });
      }
      if (written > 0) onWritten();
      await watchAge();
      return INTERVAL_MS;
    },
  });

  async function watchAge(): Promise<void> {
    const { messages, oldestMs } = await store.readOutbox();
    const nowMs = clock.monotonicMs();
    if (oldestMs === null || oldestMs <= BEHIND_MS) {
      if (toldBehindMs !== null) observer.observe({ kind: "outbox-caught-up", messages });
      toldBehindMs = null;
    } else if (toldBehindMs === null || nowMs - toldBehindMs >= BEHIND_MS) {
      observer.observe({ kind: "outbox-behind", messages, oldestMs });
      toldBehindMs = nowMs;
    }
  }
}
