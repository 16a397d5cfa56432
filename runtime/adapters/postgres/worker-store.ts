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
    async heartbeat({ worker, draining, unloadableBundles }) {
      await database.query(HEARTBEAT, [...describe(worker), draining, unloadableBundles]);
      await database.query(RAISE_EPOCH);
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
