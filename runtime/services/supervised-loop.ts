import type { Clock, Observer, Random } from "../protocol/ports/surroundings.ts";
import { createDatabaseWatch } from "./database-watch.ts";

/** What every loop runs on. */
export interface LoopSurroundings {
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
}

export interface LoopOptions extends LoopSurroundings {
  readonly name: string;
  /** One round; resolves to the milliseconds until the next. Rejecting ends the round, never the loop. */
  readonly cycle: (signal: AbortSignal) => Promise<number>;
}

export interface Loop {
  /** Starts the next round now, unless the last one failed: a database that is away is not pressed. */
  wake(): void;
  /** Ends after the round that is under way. */
  stop(): Promise<void>;
}

/** However far away the next event is: a loop that looks twice a minute cannot sleep through a mistake about time. */
const LONGEST_SLEEP_MS = 30_000;
const FIRST_BACKOFF_MS = 250;
const LONGEST_BACKOFF_MS = 5_000;

/** Runs rounds until it is stopped, backing off with jitter while they fail. */
export function startLoop({ name, clock, random, observer, cycle }: LoopOptions): Loop {
  const stopping = new AbortController();
  const watch = createDatabaseWatch(name, observer);
  let woken = false;
  let failures = 0;
  let sleeping: AbortController | null = null;

  const sleep = async (ms: number): Promise<void> => {
    if (woken && failures === 0) return;
    sleeping = new AbortController();
    if (stopping.signal.aborted) return;
    await clock.sleep(Math.min(ms, LONGEST_SLEEP_MS), sleeping.signal);
    sleeping = null;
  };

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      woken = false;
      let waitMs: number;
      try {
        waitMs = await cycle(stopping.signal);
        failures = 0;
        watch.succeeded();
      } catch (error) {
        failures += 1;
        watch.failed(error);
        const backoffMs = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.min(failures - 1, 10));
        waitMs = backoffMs * (0.5 + random.next() / 2);
      }
      await sleep(waitMs);
    }
  };

  const ended = run();
  return {
    wake() {
      woken = true;
      if (failures === 0) sleeping?.abort();
    },
    stop() {
      stopping.abort();
      sleeping?.abort();
      return ended;
    },
  };
}
