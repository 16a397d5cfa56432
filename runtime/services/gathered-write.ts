import type { Clock } from "../protocol/ports/surroundings.ts";

/** A database that is away is not pressed. */
const RETRY_MS = 1_000;

/** Writes that may wait a moment: gathered, sent together, one call at a time, tried again while they matter. */
export interface GatheredWrite<Item> {
  add(item: Item): void;
  /** Sends what has gathered, unless a call is under way or has just failed. */
  flush(): void;
}

export function createGatheredWrite<Item>(options: {
  readonly clock: Clock;
  readonly send: (items: readonly Item[]) => Promise<void>;
  /** Asked before each try. */
  readonly isWanted: (item: Item) => boolean;
  readonly onSent: (item: Item) => void;
  readonly onError: (error: unknown) => void;
}): GatheredWrite<Item> {
  const gathered = new Set<Item>();
  let inFlight = false;
  let retryMs = 0;

  const send = async (items: readonly Item[]): Promise<void> => {
    inFlight = true;
    try {
      await options.send(items);
      for (const item of items) options.onSent(item);
    } catch (error) {
      for (const item of items) gathered.add(item);
      retryMs = options.clock.monotonicMs() + RETRY_MS;
      options.onError(error);
    } finally {
      inFlight = false;
    }
  };

  return {
    add: (item) => void gathered.add(item),
    flush() {
      if (inFlight || gathered.size === 0 || options.clock.monotonicMs() < retryMs) return;
      const items = [...gathered].filter(options.isWanted);
      gathered.clear();
      if (items.length > 0) void send(items);
    },
  };
}
