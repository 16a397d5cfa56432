import { EventHeap, type Owner, type WorldEvent } from "./event-heap.ts";
import { type Stream, subStream } from "./random-streams.ts";
import { Trace } from "./trace.ts";

/** Wall time of the database at the start of every world. */
export const EPOCH_MS = Date.UTC(2026, 0, 5, 12, 0, 0);

/** Runs every microtask that is due, at once. Node has no public call for it; this one runs no macrotask between. */
const drainMicrotasks = (process as unknown as { readonly _tickCallback: () => void })._tickCallback;

/** One true time, one heap of events, one at a time. Everything that waits in a world waits in its heap. */
export class World {
  readonly trace: Trace;
  readonly schedule: Stream;
  nowMs = 0;
  events = 0;
  /** What the database's clock is ahead of the world. */
  databaseStepMs = 0;
  readonly #heap = new EventHeap();
  /** Overdue events of processes that are paused or blocked. */
  #held: WorldEvent[] = [];
  #order = 0;

  constructor(seed: number, keepTrace: boolean) {
    this.trace = new Trace(keepTrace);
    this.schedule = subStream(seed, "schedule");
  }

  databaseNowMs(): number {
    return EPOCH_MS + Math.floor(this.nowMs) + this.databaseStepMs;
  }

  after(delayMs: number, run: () => void, owner: Owner | null = null, onThread = false): WorldEvent {
    const event: WorldEvent = {
      atMs: this.nowMs + delayMs,
      tie: this.schedule.next(),
      order: this.#order++,
      owner,
      onThread,
      cancelled: false,
      run,
    };
    this.#heap.push(event);
    return event;
  }

  /** Somebody may go on: what was held back for it happens now, in any order. */
  release(): void {
    const held = this.#held;
    this.#held = [];
    for (const event of held) {
      event.atMs = this.nowMs;
      event.tie = this.schedule.next();
      this.#heap.push(event);
    }
  }

  /** The next event and all that follows from it without time; false: nothing will ever happen again. */
  step(): boolean {
    for (;;) {
      const event = this.#heap.pop();
      if (event === null) return false;
      const { owner } = event;
      if (event.cancelled || owner?.alive === false) continue;
      if (owner !== null && owner.heldUntilMs(event.onThread) > event.atMs) {
        this.#held.push(event);
        continue;
      }
      this.nowMs = event.atMs;
      this.events += 1;
      this.trace.mix(event.atMs * 1000);
      this.trace.mix(owner?.slot ?? -1);
      event.run();
      drainMicrotasks();
      return true;
    }
  }
}

/** Lets the synchronous loop of a world begin outside of any microtask, where draining them works. */
export function outsideMicrotasks<Result>(run: () => Result): Promise<Result> {
  return new Promise((resolve, reject) => {
    setImmediate(() => {
      try {
        resolve(run());
      } catch (error) {
        reject(error as Error);
      }
    });
  });
}
