import type { Clock } from "../../protocol/ports/surroundings.ts";

/** setTimeout takes 32 bits and fires at once above them. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Time of this machine; not stopped by changes of the wall clock. */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  async sleep(ms, signal) {
    const until = performance.now() + Math.max(0, ms);
    for (let left = ms; left > 0 && !signal.aborted; left = until - performance.now()) {
      await waitOnce(Math.min(left, LONGEST_TIMER_MS), signal);
    }
  },
};

/** Leaves nothing behind, whichever of the two comes first: no timer, and no listener on a signal that lives long. */
function waitOnce(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      done();
    };
    const timer = setTimeout(finish, ms);
    signal.addEventListener("abort", finish, { once: true });
  });
}
