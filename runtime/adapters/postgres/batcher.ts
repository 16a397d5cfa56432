import { RejectedError } from "../../protocol/ports/errors.ts";

export interface BatcherOptions<Item, Result> {
  /** One statement for all items; results in the items' order. */
  readonly run: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Statements in flight at once. */
  readonly lanes: number;
  readonly maxBatch: number;
  /** A statement costs as much as many items: so many must wait before another joins those in flight. Default: 1. */
  readonly nextLaneAt?: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Natural batching: a call goes out at once when nothing is in flight, what arrives meanwhile goes together in the next
 * statement. No timer, so no latency is added at low load. A statement that is refused for its data is split until the
 * bad item stands alone, so one bad row never spoils a batch.
 */
export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): (item: Item) => Promise<Result> {
  const { nextLaneAt = 1 } = options;
  let waiting: Waiting<Item, Result>[] = [];
  let inFlight = 0;

  const flush = (): void => {
    while (inFlight < options.lanes && waiting.length >= (inFlight === 0 ? 1 : nextLaneAt)) {
      const batch = waiting.slice(0, options.maxBatch);
      waiting = waiting.slice(options.maxBatch);
      inFlight += 1;
      void runSplitting(options.run, batch).finally(() => {
        inFlight -= 1;
        flush();
      });
    }
  };

  let scheduled = false;
  return (item) =>
    new Promise<Result>((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (scheduled || inFlight >= options.lanes) return;
      // Everything that is asked for in this turn of the event loop goes together.
      scheduled = true;
      queueMicrotask(() => {
        scheduled = false;
        flush();
      });
    });
}

async function runSplitting<Item, Result>(
  run: BatcherOptions<Item, Result>["run"],
  batch: readonly Waiting<Item, Result>[],
): Promise<void> {
  try {
    const results = await run(batch.map((waiting) => waiting.item));
    for (const [index, waiting] of batch.entries()) waiting.resolve(results[index] as Result);
  } catch (error) {
    if (batch.length > 1 && isDataRefused(error)) {
      const middle = batch.length >> 1;
      await runSplitting(run, batch.slice(0, middle));
      await runSplitting(run, batch.slice(middle));
      return;
    }
    for (const waiting of batch) waiting.reject(error);
  }
}

/** Classes 22 (data), 23 (constraint) and 54 (limits): one of the rows is to blame. */
export function isDataRefused(error: unknown): boolean {
  return error instanceof RejectedError && error.sqlState !== null && /^(22|23|54)/.test(error.sqlState);
}
