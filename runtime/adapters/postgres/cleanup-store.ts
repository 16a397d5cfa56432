import { RejectedError } from "../../protocol/ports/errors.ts";
import type { CleanupStore } from "../../protocol/ports/workers.ts";
import {
  createPartition,
  DELETE_EXPIRED,
  deleteExternal,
  dropPartition,
  EXPIRED_PARTITIONS,
  EXPIRING,
  FOLD_COUNTERS,
  FORGET_DRAINED_TYPES,
  LOCK_PARTITIONS,
  MISSING_DAYS,
  PORTION,
  REST_HAS_DAY,
} from "./cleanup-statements.ts";
import { HISTORY_PORTION, MOVE_LEFT_BEHIND } from "./execution-statements.ts";
import { type Database, isLockTimeout } from "./pool.ts";
import { PRUNE_WORKERS } from "./worker-statements.ts";

/**
 * Behind a statement that waits for a whole table, every finish and every reader waits too. A dump or a forgotten session holds
 * tables for hours: then it is given up soon, and the next round tries again.
 */
const TABLE_WAIT_MS = 200;

interface Day {
  readonly suffix: string;
  readonly from_day: string;
  readonly to_day: string;
}

/** Housekeeping: whatever expires is dropped by the day, whole partitions at a time. */
export function createCleanupStore(database: Database): CleanupStore {
  return {
    async preparePartitions() {
      for (const day of await database.query<Day>(MISSING_DAYS)) await changeTables((query) => createDay(query, day));
    },

    async dropExpired(signal) {
      let dropped = 0;
      for (const { name } of await database.query<{ name: string }>(EXPIRED_PARTITIONS)) {
        if (name.startsWith("jobs_final_")) await repeat(deleteExternal(name), { fullPortion: PORTION, signal });
        if (signal.aborted) return dropped;
        if (await changeTables((query) => query(dropPartition(name)))) dropped += 1;
      }
      await repeat(MOVE_LEFT_BEHIND, { fullPortion: HISTORY_PORTION, signal });
      for (const statement of DELETE_EXPIRED) await repeat(statement, { fullPortion: PORTION, signal });
      await database.query(FORGET_DRAINED_TYPES);
      return dropped;
    },

    foldCounters: (signal) => repeat(FOLD_COUNTERS, { fullPortion: PORTION, signal }),

    async pruneWorkers(olderThanMs) {
      return (await database.query(PRUNE_WORKERS, [olderThanMs])).length;
    },
  };

  /** As long as a statement finds a full portion; a portion is over soon, so the signal is heard between two. */
  async function repeat(
    statement: string,
    { fullPortion, signal }: { readonly fullPortion: number; readonly signal: AbortSignal },
  ): Promise<void> {
    while (!signal.aborted) {
      const [row] = await database.query<{ taken: number }>(statement);
      if ((row?.taken ?? 0) < fullPortion) return;
    }
  }

  /**
   * One change in a transaction of its own: finishes take the tables in another order, and two at once could lock with them.
   * False: the tables are in use; the next round looks again.
   */
  async function changeTables(change: (query: Database["query"]) => Promise<unknown>): Promise<boolean> {
    try {
      await database.transaction(
        async (query) => {
          await query(LOCK_PARTITIONS);
          await change(query);
        },
        { lockTimeoutMs: TABLE_WAIT_MS },
      );
      return true;
    } catch (error) {
      if (isLockTimeout(error) || isPlaceTaken(error)) return false;
      throw error;
    }
  }
}

async function createDay(query: Database["query"], { suffix, from_day: from, to_day: to }: Day): Promise<void> {
  const [rest] = await query<{ has: boolean }>(REST_HAS_DAY, [from, to]);
  if (rest?.has === true) return;
  for (const parent of EXPIRING) await query(createPartition({ parent, suffix, from, to }));
}

/** Rows of the day came into the default partition meanwhile (check_violation). */
function isPlaceTaken(error: unknown): boolean {
  return error instanceof RejectedError && error.sqlState === "23514";
}
