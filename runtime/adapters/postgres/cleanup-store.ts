import type { CleanupStore } from "../../protocol/ports/workers.ts";
import {
  createPartition,
  DELETE_EXPIRED_REST,
  deletePayloadsOf,
  dropPartition,
  EXPIRED_PARTITIONS,
  EXPIRING,
  FOLD_COUNTERS,
  FORGET_DRAINED_TYPES,
  LOCK_PARTITIONS,
  MISSING_DAYS,
  REST_HAS_DAY,
} from "./cleanup-statements.ts";
import { MOVE_HISTORY } from "./execution-statements.ts";
import type { Database } from "./pool.ts";
import { PRUNE_WORKERS } from "./worker-statements.ts";

/** Housekeeping: whatever expires is dropped by the day, whole partitions at a time. */
export function createCleanupStore(database: Database): CleanupStore {
  return {
    async preparePartitions() {
      await database.transaction(async (query) => {
        await query(LOCK_PARTITIONS);
        const days = await query<{ suffix: string; from_day: string; to_day: string }>(MISSING_DAYS);
        for (const day of days) {
          const [rest] = await query<{ has: boolean }>(REST_HAS_DAY, [day.from_day, day.to_day]);
          if (rest?.has === true) continue;
          for (const parent of EXPIRING) {
            await query(createPartition({ parent, suffix: day.suffix, from: day.from_day, to: day.to_day }));
          }
        }
      });
    },

    async dropExpired() {
      const dropped = await database.transaction(async (query) => {
        await query(LOCK_PARTITIONS);
        const expired = await query<{ name: string }>(EXPIRED_PARTITIONS);
        for (const { name } of expired) {
          if (name.startsWith("jobs_final_")) await query(deletePayloadsOf(name));
          await query(dropPartition(name));
        }
        return expired.length;
      });
      await database.query(MOVE_HISTORY, [null]);
      for (const statement of DELETE_EXPIRED_REST) await database.query(statement);
      await database.query(FORGET_DRAINED_TYPES);
      return dropped;
    },

    async foldCounters() {
      await database.query(FOLD_COUNTERS);
    },

    async pruneWorkers(olderThanMs) {
      return (await database.query(PRUNE_WORKERS, [olderThanMs])).length;
    },
  };
}
