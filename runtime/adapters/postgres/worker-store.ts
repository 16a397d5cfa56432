import { assert } from "../../core/assert.ts";
import type { WorkerInfo, WorkerStore } from "../../protocol/ports/workers.ts";
import type { Database } from "./pool.ts";
import {
  DEREGISTER_WORKER,
  HEARTBEAT,
  HOLD_TERM,
  LOCK_INSTALLATION,
  RAISE_EPOCH,
  REGISTER_WORKER,
  RELEASE_TERM,
} from "./worker-statements.ts";

/** A clock that is off by more is off by 24 days. */
const MAX_INTEGER = 2 ** 31 - 1;

/** Who is there, and who leads. */
export function createWorkerStore(database: Database): WorkerStore {
  return {
    async registerWorker(info) {
      const [row] = await database.transaction(async (query) => {
        await query(LOCK_INSTALLATION);
        await query(RAISE_EPOCH);
        return query<{ cold_start: boolean }>(REGISTER_WORKER, describe(info));
      });
      return { coldStart: row?.cold_start === true };
    },
    async heartbeat({ worker, draining, unloadableBundles, condition }) {
      await database.query(RAISE_EPOCH);
      const { clockSkewMs, handlersCutOff, handlersStuck, leasesFailing } = condition;
      const [row] = await database.query<{ database_time: Date }>(HEARTBEAT, [
        ...describe(worker),
        draining,
        unloadableBundles,
        clockSkewMs === null ? null : Math.max(-MAX_INTEGER, Math.min(MAX_INTEGER, clockSkewMs)),
        handlersCutOff,
        handlersStuck,
        leasesFailing,
      ]);
      assert(row !== undefined, "an upsert answers with its row");
      return { databaseTime: row.database_time };
    },
    async deregisterWorker(workerId) {
      await database.query(DEREGISTER_WORKER, [workerId]);
    },
    async holdTerm({ duty, workerId, termMs }) {
      return (await database.query(HOLD_TERM, [duty, workerId, termMs])).length > 0;
    },
    async releaseTerm({ duty, workerId }) {
      await database.query(RELEASE_TERM, [duty, workerId]);
    },
  };
}

function describe(info: WorkerInfo): readonly unknown[] {
  return [info.id, info.name, info.host, info.pid, info.version, JSON.stringify(info.queues)];
}
