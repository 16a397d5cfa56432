import type { Clock } from "../../protocol/ports/surroundings.ts";

interface Sleeper {
  readonly untilMs: number;
  readonly order: number;
  readonly wake: () => void;
}

/** Time that moves only when it is told to, so that whole outages pass in milliseconds and always in the same order. */
export interface VirtualClock extends Clock {
  /** Moves time on, waking sleepers one by one in the order of their instants; settles all that follows from each. */
  advance(ms: number): Promise<void>;
  /** Moves time on in one step, as for a process that was paused: whatever is overdue wakes at the new time. */
  jump(ms: number): Promise<void>;
  /** Lets everything run that needs no time. */
  settle(): Promise<void>;
}

export function createVirtualClock(startMs = 0): VirtualClock {
  let nowMs = startMs;
  let order = 0;
  const sleepers = new Set<Sleeper>();

  const next = (): Sleeper | null => {
    let first: Sleeper | null = null;
    for (const sleeper of sleepers) {
      if (
        first === null ||
        sleeper.untilMs < first.untilMs ||
        (sleeper.untilMs === first.untilMs && sleeper.order < first.order)
      ) {
        first = sleeper;
      }
    }
    return first;
  };
  // One turn of the event loop: every microtask that is due has run by then.
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  return {
    monotonicMs: () => nowMs,
    sleep(ms, signal) {
      if (signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const wake = (): void => {
          sleepers.delete(sleeper);
          signal.removeEventListener("abort", wake);
          resolve();
        };
        const sleeper: Sleeper = { untilMs: nowMs + Math.max(0, ms), order: order++, wake };
        sleepers.add(sleeper);
        signal.addEventListener("abort", wake, { once: true });
      });
    },
    settle,
    async jump(ms) {
      nowMs += ms;
      for (const sleeper of [...sleepers].sort(
        (left, right) => left.untilMs - right.untilMs || left.order - right.order,
      )) {
        if (sleeper.untilMs <= nowMs) sleeper.wake();
      }
      await settle();
    },
    async advance(ms) {
      const untilMs = nowMs + ms;
      await settle();
      for (let sleeper = next(); sleeper !== null && sleeper.untilMs <= untilMs; sleeper = next()) {
        nowMs = Math.max(nowMs, sleeper.untilMs);
        sleeper.wake();
        await settle();
      }
      nowMs = untilMs;
      await settle();
    },
  };
}
