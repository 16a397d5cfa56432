import type { JobId } from "../../core/ids.ts";
import type { InsertOutcome, JobStore, NewJob } from "../../protocol/ports/jobs.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { isFinal } from "../../protocol/states.ts";
import type { MemoryDatabase } from "./database.ts";

export function createJobStore(database: MemoryDatabase, doorbell: Pick<Doorbell, "ring">): JobStore {
  function insertAll(jobs: readonly NewJob[]): InsertOutcome {
    const unknownTypes = [...new Set(jobs.map((job) => job.type).filter((type) => !database.types.has(type)))];
    if (unknownTypes.length > 0) return { unknownTypes };
    const inserted = jobs.map((job) => database.insertUnique(job));
    const enqueued = inserted.filter(({ row, isDuplicate }) => row.state === "Enqueued" && !isDuplicate);
    for (const queue of new Set(enqueued.map(({ row }) => row.queue))) doorbell.ring({ kind: "queue", queue });
    return {
      created: inserted.map(({ row: { id, queue, state }, isDuplicate }) =>
        isDuplicate ? { id, queue, state, duplicate: true } : { id, queue, state },
      ),
    };
  }

  return {
    async insertJobs(jobs) {
      return insertAll(jobs);
    },

    async insertJobsOnce(jobs, { scope, key, requestHash, retainMs }) {
      const place = `${scope}\u0000${key}`;
      const first = database.answers.get(place);
      if (first !== undefined && first.expiresAtMs > database.nowMs()) {
        return first.requestHash === requestHash ? { replayed: first.created } : { refused: "other-request" };
      }
      const outcome = insertAll(jobs);
      if ("created" in outcome) {
        database.answers.set(place, {
          requestHash,
          created: outcome.created,
          expiresAtMs: database.nowMs() + retainMs,
        });
      }
      return outcome;
    },

    async loadJobTypes(types) {
      return new Map(
        types.flatMap((type) => {
          const declared = database.types.get(type);
          return declared === undefined ? [] : [[type, declared.definition] as const];
        }),
      );
    },

    async cancelJob(id) {
      const row = database.jobs.get(id);
      if (row === undefined) return { kind: "not-found" };
      if (isFinal(row.state)) return { kind: "finished", state: row.state };
      if (row.state === "Processing") {
        row.cancelRequested = true;
        doorbell.ring({ kind: "cancel", jobId: id });
        return { kind: "requested" };
      }
      database.end(row, "Cancelled", "cancelled");
      return { kind: "cancelled" };
    },

    async requeueJob(id) {
      const row = database.jobs.get(id);
      if (row === undefined) return { kind: "not-found" };
      if (!isFinal(row.state)) return { kind: "refused", state: row.state };
      Object.assign(row, FRESH);
      row.generation += 1;
      row.runAtMs = database.nowMs();
      row.sortAtMs = row.runAtMs - row.priority * 60_000;
      database.enqueue(row, "requeued");
      if (row.hold !== null) return { kind: "requeued", held: true };
      doorbell.ring({ kind: "queue", queue: row.queue });
      return { kind: "requeued" };
    },

    async deleteJob(id: JobId) {
      const row = database.jobs.get(id);
      if (row === undefined) return { kind: "not-found" };
      if (!isFinal(row.state)) return { kind: "refused", state: row.state };
      database.jobs.delete(id);
      return { kind: "deleted" };
    },
  };
}

/** Budgets and traces of the former generation. */
const FRESH = {
  failures: 0,
  lost: 0,
  lostUnstarted: 0,
  returns: 0,
  recovered: false,
  cancelRequested: false,
  progress: 0,
  progressMessage: null,
  result: null,
  resultError: null,
  error: null,
  finishedAtMs: null,
} as const;
