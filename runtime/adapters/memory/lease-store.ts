import type { DispatchToken, WorkerId } from "../../core/ids.ts";
import type { Ownership } from "../../protocol/ports/jobs.ts";
import type { LeaseStore, LostJob } from "../../protocol/ports/leases.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import type { JobRow, MemoryDatabase } from "./database.ts";

const DEFAULT_MAX_LOST = 3;

export function createLeaseStore(database: MemoryDatabase, doorbell: Pick<Doorbell, "ring">): LeaseStore {
  return {
    async renewLeases(workerId, pairs) {
      const renewed: (Ownership & { cancelRequested: boolean })[] = [];
      const lost: Ownership[] = [];
      for (const { jobId, token, runningMs } of pairs) {
        const row = database.owned(workerId, { jobId, token });
        if (row === null) {
          lost.push({ jobId, token });
          continue;
        }
        row.leaseCounter += 1;
        if (runningMs !== null) row.startedAtMs ??= database.nowMs() - runningMs;
        renewed.push({ jobId, token, cancelRequested: row.cancelRequested });
      }
      return { renewed, lost, skipped: [] };
    },

    async observeLeases() {
      return [...database.processing].map(({ id, token, leaseCounter }) => ({
        jobId: id,
        token: token as DispatchToken,
        leaseCounter,
      }));
    },

    async recoverJobs(suspects) {
      return suspects.flatMap(({ jobId, token, leaseCounter }) => {
        const row = database.jobs.get(jobId);
        if (row === undefined || row.state !== "Processing" || row.token !== token || row.leaseCounter !== leaseCounter)
          return [];
        const recovered = recover(database, row, token);
        if (recovered.next === "Enqueued") doorbell.ring({ kind: "queue", queue: row.queue });
        return [recovered];
      });
    },
  };
}

function recover(database: MemoryDatabase, row: JobRow, token: DispatchToken): LostJob {
  const workerId = row.workerId as WorkerId;
  const started = row.startedAtMs !== null;
  row.attempts.push({ execution: row.execution, token, workerId, outcome: "lost", error: "worker lost" });
  if (started) row.lost += 1;
  else row.lostUnstarted += 1;
  const maxLost = database.types.get(row.type)?.definition.policy.maxLost ?? DEFAULT_MAX_LOST;
  const next = row.cancelRequested ? "Cancelled" : started && row.lost >= maxLost ? "Failed" : "Enqueued";
  if (next === "Enqueued") {
    row.recovered = true;
    database.enqueue(row, "worker lost");
  } else {
    if (next === "Failed") row.error = "worker lost";
    database.end(row, next, next === "Failed" ? "worker lost" : "cancelled");
  }
  return { jobId: row.id, token, workerId, next };
}
