import type { DispatchToken, WorkerId } from "../../core/ids.ts";
import type { ClaimedJob, DeliveryStore, ExecutionStore, Finish, FinishOutcome } from "../../protocol/ports/jobs.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import type { TransitionReason } from "../../protocol/states.ts";
import type { AttemptRow, JobRow, MemoryDatabase } from "./database.ts";

export function createExecutionStore(
  database: MemoryDatabase,
  doorbell: Pick<Doorbell, "ring"> = { ring: () => {} },
): ExecutionStore & DeliveryStore {
  return {
    async claimJobs({ workerId, queue, limit, after, exceptTypes }) {
      const rows = database.runnable(queue).usual.take({
        after: after === null ? null : readCursor(after),
        limit: Math.max(0, Math.min(limit, roomIn(database, queue) - recoveredIn(database, queue))),
        wanted: (row) => !exceptTypes.includes(row.type),
      });
      for (const row of rows) database.claim(row, workerId);
      const last = rows.at(-1);
      return {
        jobs: rows.map((row) => claimed(database, row)),
        cursor: last === undefined ? after : `${last.sortAtMs}/${last.id}`,
        ...(Number.isFinite(roomIn(database, queue)) ? { limited: true as const } : {}),
      };
    },

    async claimRecovered({ workerId, queue, exceptTypes }) {
      const [row] = database.runnable(queue).recovered.take({
        after: null,
        limit: Math.min(1, roomIn(database, queue)),
        wanted: (candidate) => !exceptTypes.includes(candidate.type),
      });
      if (row === undefined) return null;
      database.claim(row, workerId);
      return claimed(database, row);
    },

    async findOwned({ workerId, known }) {
      const tokens = new Set(known.map(({ token }) => token));
      return [...database.processing].flatMap(({ id, token, workerId: owner }) =>
        owner === workerId && token !== null && !tokens.has(token) ? [{ jobId: id, token }] : [],
      );
    },

    async loadDefinitions(hashes) {
      return new Map(
        hashes.flatMap((hash) => {
          const definition = database.definitions.get(hash);
          return definition === undefined ? [] : [[hash, definition] as const];
        }),
      );
    },

    async loadBundle(hash) {
      return database.bundles.get(hash) ?? null;
    },

    async finishJob(workerId, finish) {
      const row = database.owned(workerId, finish);
      if (row === null) return readBack(database, workerId, finish);
      const cancelled = row.cancelRequested && finish.next !== "Succeeded";
      land(database, row, cancelled ? { ...finish, next: "Cancelled", reason: "cancelled" } : finish);
      if (!cancelled) {
        for (const child of finish.children ?? []) {
          const { row: born, isDuplicate } = database.insertUnique(child);
          if (born.state === "Enqueued" && !isDuplicate) doorbell.ring({ kind: "queue", queue: born.queue });
        }
      }
      return cancelled && finish.next !== "Cancelled" ? "cancelled" : "landed";
    },

    async returnClaims(workerId, claims) {
      for (const claim of claims) {
        const row = database.owned(workerId, claim);
        if (row === null) continue;
        if (row.cancelRequested) database.end(row, "Cancelled", "cancelled");
        else database.postpone(row, { reason: "returned", delayMs: 0, hold: null });
      }
    },

    async markStarted(workerId, starts) {
      for (const start of starts) {
        const row = database.owned(workerId, start);
        if (row !== null) row.startedAtMs ??= database.nowMs() - start.runningMs;
      }
    },

    async reportProgress(workerId, reports) {
      for (const report of reports) {
        const row = database.owned(workerId, report);
        if (row === null) continue;
        row.progress = report.percent;
        row.progressMessage = report.message;
      }
    },

    async claimDelivery(workerId, { jobId, token }) {
      const row = database.jobs.get(jobId);
      if (row === undefined || row.state !== "Enqueued" || row.token !== token) return null;
      if (Number.isFinite(roomIn(database, row.queue))) return "limited";
      database.claim(row, workerId);
      return claimed(database, row);
    },

    async deferDelivery({ jobId, token }, delayMs) {
      const row = database.jobs.get(jobId);
      if (row === undefined || row.state !== "Enqueued" || row.token !== token) return false;
      database.postpone(row, { reason: "deferred", delayMs, hold: null });
      return true;
    },
  };
}

function land(database: MemoryDatabase, row: JobRow, finish: Finish): void {
  if (finish.charge === "failure") row.failures += 1;
  else if (finish.charge === "lost") row.lost += 1;
  else if (finish.charge === "return") row.returns += 1;
  if (finish.ranMs !== null) {
    const { execution, workerId } = row;
    row.attempts.push({
      execution,
      token: finish.token,
      workerId: workerId as WorkerId,
      outcome: finish.outcome,
      error: finish.error,
    });
  }
  if (finish.error !== null) row.error = finish.error;
  const reason = finish.reason as TransitionReason;
  if (finish.next === "Scheduled") {
    row.recovered = finish.charge === "lost";
    row.releasedToken = finish.token;
    database.postpone(row, { reason, delayMs: finish.delayMs, hold: finish.hold });
    return;
  }
  if (finish.next === "Succeeded") {
    row.result = finish.result;
    row.resultError = finish.resultError;
    row.progress = 100;
  }
  database.end(row, finish.next, reason);
}

/** A finish whose first answer was lost has landed; any other that finds no row is fenced. */
function readBack(database: MemoryDatabase, workerId: WorkerId, finish: Finish): FinishOutcome {
  const row = database.jobs.get(finish.jobId);
  if (row === undefined) return "fenced";
  const attempt = row.attempts.find(({ token }) => token === finish.token);
  const isCancelled = row.state === "Cancelled" && row.token === finish.token && row.workerId === workerId;
  const isOurs =
    finish.ranMs === null
      ? row.releasedToken === finish.token || (isCancelled && attempt === undefined)
      : attempt?.workerId === workerId && attempt.outcome === finish.outcome && !isOfRecovery(attempt);
  if (!isOurs) return "fenced";
  return isCancelled && finish.next !== "Cancelled" ? "cancelled" : "landed";
}

/** Recovery records the loss under the same token and worker as a crash that the worker itself noticed. */
function isOfRecovery({ outcome, error }: AttemptRow): boolean {
  return outcome === "lost" && error === "worker lost";
}

function roomIn(database: MemoryDatabase, queue: string): number {
  const declared = database.queues.get(queue);
  if (declared === undefined) return Number.POSITIVE_INFINITY;
  if (declared.suspended || database.pauses.has(`Queue/${queue}`)) return 0;
  if (declared.concurrency === null) return Number.POSITIVE_INFINITY;
  let running = 0;
  for (const row of database.processing) if (row.queue === queue) running += 1;
  return Math.max(0, declared.concurrency - running);
}

/** Jobs that lost their worker; room is kept for them, since the others would take all of it again and again. */
function recoveredIn(database: MemoryDatabase, queue: string): number {
  if (database.queues.get(queue)?.concurrency == null) return 0;
  const everything = { after: null, limit: Number.POSITIVE_INFINITY, wanted: () => true };
  return database.runnable(queue).recovered.take(everything).length;
}

function claimed(database: MemoryDatabase, row: JobRow): ClaimedJob {
  const type = database.types.get(row.type);
  return {
    id: row.id,
    token: row.token as DispatchToken,
    type: row.type,
    queue: row.queue,
    payload: row.payload,
    definitionHash: type?.hash ?? null,
    revision: type?.revision ?? null,
    failures: row.failures,
    execution: row.execution,
    lost: row.lost,
    lostUnstarted: row.lostUnstarted,
    returns: row.returns,
    maxAttempts: row.maxAttempts,
    timeoutMs: row.timeoutMs,
    concurrencyKey: row.concurrencyKey ?? null,
    schedule: row.schedule,
    recovered: row.recovered,
  };
}

function readCursor(cursor: string): { readonly sortAtMs: number; readonly id: string } {
  const slash = cursor.indexOf("/");
  return { sortAtMs: Number(cursor.slice(0, slash)), id: cursor.slice(slash + 1) };
}
