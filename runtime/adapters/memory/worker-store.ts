import type { CleanupStore, WorkerStore } from "../../protocol/ports/workers.ts";
import type { MemoryDatabase } from "./database.ts";

export function createWorkerStore(database: MemoryDatabase): WorkerStore & CleanupStore {
  return {
    async registerWorker(info) {
      const coldStart = ![...database.workers.values()].some((worker) => database.isAlive(worker));
      if (coldStart) database.coldStarts += 1;
      database.workers.set(info.id, {
        info,
        heartbeatAtMs: database.nowMs(),
        leftAtMs: null,
        draining: false,
        unloadableBundles: [],
        condition: null,
      });
      return { coldStart };
    },

    async heartbeat({ worker, draining, unloadableBundles, condition }) {
      const heartbeatAtMs = database.nowMs();
      const beat = { heartbeatAtMs, leftAtMs: null, draining, unloadableBundles, condition };
      database.workers.set(worker.id, { info: worker, ...beat });
      return { databaseTime: new Date(heartbeatAtMs) };
    },

    async deregisterWorker(workerId) {
      for (const [duty, term] of database.terms) if (term.workerId === workerId) database.terms.delete(duty);
      const worker = database.workers.get(workerId);
      if (worker !== undefined) worker.leftAtMs = database.nowMs();
    },

    async holdTerm({ duty, workerId, termMs }) {
      const term = database.terms.get(duty);
      if (term !== undefined && term.workerId !== workerId && term.expiresAtMs >= database.nowMs()) return false;
      database.terms.set(duty, { workerId, expiresAtMs: database.nowMs() + termMs });
      return true;
    },

    async releaseTerm({ duty, workerId }) {
      if (database.terms.get(duty)?.workerId === workerId) database.terms.delete(duty);
    },

    // There are no partitions and no counters here: finished jobs stay until the process ends.
    async preparePartitions() {},
    async dropExpired() {
      return 0;
    },
    async foldCounters() {},

    async pruneWorkers(olderThanMs) {
      const beforeMs = database.nowMs() - olderThanMs;
      let pruned = 0;
      for (const [id, worker] of database.workers) {
        if ((worker.leftAtMs ?? worker.heartbeatAtMs) >= beforeMs) continue;
        database.workers.delete(id);
        pruned += 1;
      }
      return pruned;
    },
  };
}
