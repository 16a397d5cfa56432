import type { JobId, WorkerId } from "../../core/ids.ts";
import type { Ownership } from "../../protocol/ports/jobs.ts";
import type { LeaseStore, LostJob } from "../../protocol/ports/leases.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { releaseKeys } from "./concurrency-keys.ts";
import { pairs, toToken } from "./execution-store.ts";
import { OBSERVE_LEASES, RECOVER_JOBS, RENEW_LEASES } from "./lease-statements.ts";
import type { Database } from "./pool.ts";

interface RecoveredRow {
  readonly id: JobId;
  readonly owner: WorkerId;
  readonly token: string;
  readonly next: LostJob["next"];
  readonly queue: string;
  /** The concurrency key of a job that has ended. */
  readonly key: string | null;
}

/** Leases on a pool of their own with a short statement limit, so that nothing else can starve a renewal. */
export function createLeaseStore(database: Database, doorbell: Pick<Doorbell, "ring">): LeaseStore {
  return {
    async renewLeases(workerId, owned) {
      const rows = await database.query<{ token: string; renewed: boolean; cancel_requested: boolean }>(RENEW_LEASES, [
        workerId,
        ...pairs(owned),
        owned.map((pair) => (pair.runningMs === null ? null : Math.round(pair.runningMs))),
      ]);
      const found = new Map(rows.map((row) => [toToken(row.token), row]));
      const renewed: (Ownership & { cancelRequested: boolean })[] = [];
      const lost: Ownership[] = [];
      const skipped: Ownership[] = [];
      for (const { jobId, token } of owned) {
        const row = found.get(token);
        if (row === undefined) lost.push({ jobId, token });
        else if (row.renewed) renewed.push({ jobId, token, cancelRequested: row.cancel_requested });
        else skipped.push({ jobId, token });
      }
      return { renewed, lost, skipped };
    },

    async observeLeases() {
      const rows = await database.query<{ id: JobId; dispatch_id: string; lease_counter: number }>(OBSERVE_LEASES);
      return rows.map((row) => ({ jobId: row.id, token: toToken(row.dispatch_id), leaseCounter: row.lease_counter }));
    },

    async recoverJobs(suspects) {
      const { rows, admitted } = await database.transaction(async (query) => {
        const rows = await query<RecoveredRow & { id: JobId }>(RECOVER_JOBS, [
          ...pairs(suspects),
          suspects.map((suspect) => suspect.leaseCounter),
        ]);
        const left = rows.flatMap(({ id, key }) => (key === null ? [] : [{ id, key }]));
        return { rows, admitted: await releaseKeys(query, left) };
      });
      const runnable = [...rows.filter((row) => row.next === "Enqueued"), ...admitted];
      for (const queue of new Set(runnable.map((row) => row.queue))) doorbell.ring({ kind: "queue", queue });
      return rows.map((row) => ({ jobId: row.id, token: toToken(row.token), workerId: row.owner, next: row.next }));
    },
  };
}
