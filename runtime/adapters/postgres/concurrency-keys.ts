import type { JobId } from "../../core/ids.ts";
import {
  CONFIRM_STALE_KEYS,
  FIND_FREE_KEYS,
  FIND_STALE_KEYS,
  HAND_OVER_KEYS,
  LOCK_OWNED_KEYS,
  TAKE_FREE_KEYS,
} from "./concurrency-statements.ts";
import type { Database } from "./pool.ts";

type Query = Database["query"];

/** A job with the concurrency key it has, had or waits for. */
export interface KeyedJob {
  readonly id: JobId;
  readonly key: string;
}

/** A job that came into its queue since it got its key. */
export interface Admitted {
  readonly id: JobId;
  readonly queue: string;
}

/** Gives keys that are free to the first of their waiters; those that are not stay as they are. In the waiters' transaction or later. */
export async function takeKeys(query: Query, keys: readonly string[]): Promise<readonly Admitted[]> {
  if (keys.length === 0) return [];
  const free = await query<{ key: string }>(TAKE_FREE_KEYS, [[...new Set(keys)]]);
  return handOver(query, free);
}

/** Hands on the keys of jobs that have left in this transaction; for a job that has none of its own nothing happens. */
export async function releaseKeys(query: Query, left: readonly KeyedJob[]): Promise<readonly Admitted[]> {
  if (left.length === 0) return [];
  return handOver(query, await lockOwned(query, left));
}

/** What a look has found may be over by now: the keys are locked and looked at once more. */
async function releaseStaleKeys(query: Query, seen: readonly KeyedJob[]): Promise<readonly Admitted[]> {
  if (seen.length === 0) return [];
  const locked = await lockOwned(query, seen);
  return handOver(query, await query<{ key: string }>(CONFIRM_STALE_KEYS, [locked.map(({ key }) => key)]));
}

function lockOwned(query: Query, jobs: readonly KeyedJob[]): Promise<readonly { readonly key: string }[]> {
  return query<{ key: string }>(LOCK_OWNED_KEYS, [jobs.map((job) => job.key), jobs.map((job) => job.id)]);
}

async function handOver(query: Query, keys: readonly { readonly key: string }[]): Promise<readonly Admitted[]> {
  if (keys.length === 0) return [];
  return query<{ id: JobId; queue: string }>(HAND_OVER_KEYS, [keys.map(({ key }) => key)]);
}

/** Keys that one look of the net goes through. */
const SWEEP_PORTION = 2_000;

/**
 * The net under all of it: frees what jobs that are gone have kept, and gives free keys to their waiters. Each call looks at the next
 * portion of the keys; an answer names the queues that got work.
 */
export function createKeySweep(database: Database): () => Promise<readonly string[]> {
  let afterOwned = "";
  let afterWaiting = "";
  return async () => {
    const [owned] = await database.query<{ last: string | null; stale: readonly KeyedJob[] }>(FIND_STALE_KEYS, [
      afterOwned,
      SWEEP_PORTION,
    ]);
    const [waiting] = await database.query<{ last: string | null; free: readonly string[] }>(FIND_FREE_KEYS, [
      afterWaiting,
      SWEEP_PORTION,
    ]);
    afterOwned = owned?.last ?? "";
    afterWaiting = waiting?.last ?? "";
    const { stale = [] } = owned ?? {};
    const { free = [] } = waiting ?? {};
    if (stale.length + free.length === 0) return [];
    const admitted = await database.transaction(async (query) => [
      ...(await releaseStaleKeys(query, stale)),
      ...(await takeKeys(query, free)),
    ]);
    return admitted.map((job) => job.queue);
  };
}
