import { describeError } from "../../core/errors.ts";
import type { JobId } from "../../core/ids.ts";
import type { Logger } from "../../core/logger.ts";
import { MOVE_HISTORY } from "./execution-statements.ts";
import type { Database } from "./pool.ts";

/** A job that has just finished and has history of earlier executions. */
export interface FinishedHistory {
  readonly id: JobId;
  /** The day its row expires on; null: there is no earlier history. */
  readonly history_to: string | null;
}

/** Jobs in one statement. */
const BATCH = 500;

/**
 * Lets earlier history follow finished jobs, after the commit and one statement at a time, so that it never takes the connections
 * that finishes need. What a failure or a crash leaves behind is for the leader's sweep.
 */
export function createHistoryMover(options: {
  readonly database: Database;
  readonly logger: Logger;
}): (finished: readonly FinishedHistory[]) => void {
  const { database, logger } = options;
  const waiting = new Map<JobId, string>();
  let isMoving = false;

  async function move(): Promise<void> {
    isMoving = true;
    try {
      while (waiting.size > 0) {
        const batch = [...waiting].slice(0, BATCH);
        for (const [id] of batch) waiting.delete(id);
        await database.query(MOVE_HISTORY, [batch.map(([id]) => id), [...new Set(batch.map(([, day]) => day))]]);
      }
    } catch (error) {
      waiting.clear();
      logger.debug("history stays behind until the next sweep", { error: describeError(error) });
    } finally {
      isMoving = false;
    }
  }

  return (finished) => {
    for (const { id, history_to: day } of finished) if (day !== null) waiting.set(id, day);
    if (waiting.size > 0 && !isMoving) void move();
  };
}
