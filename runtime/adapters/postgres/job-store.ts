import type { JobDefinition } from "../../config/objects.ts";
import { assert } from "../../core/assert.ts";
import type { JobId } from "../../core/ids.ts";
import type { CreatedJob, JobStore } from "../../protocol/ports/jobs.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { type FinalState, isFinal, type JobState } from "../../protocol/states.ts";
import { CHANNEL, QUEUE_TOPIC } from "./doorbell.ts";
import { CANCEL_JOB, DELETE_JOB, INSERT_JOBS, LOAD_JOB_TYPES, LOCK_FINISHED, REQUEUE_JOB } from "./job-statements.ts";
import type { Database } from "./pool.ts";

/** Payloads above this many bytes of JSON are stored once, beside the row. */
const INLINE_PAYLOAD_BYTES = 2_048;

/**
 * After this long without an insert the next one rings with its own commit: the worker hears of it a round trip sooner.
 * Under load rings go apart, since all commits that ring stand in one line.
 */
const ALONE_AFTER_MS = 50;

/** Creating, cancelling, requeueing and deleting jobs. Rings with or after the commit; a lost ring costs one poll. */
export function createJobStore(database: Database, doorbell: Pick<Doorbell, "ring">): JobStore {
  let lastInsertMs = Number.NEGATIVE_INFINITY;
  return {
    async insertJobs(jobs) {
      const nowMs = performance.now();
      const isAlone = nowMs - lastInsertMs >= ALONE_AFTER_MS;
      lastInsertMs = nowMs;
      const payloads = jobs.map((job) => JSON.stringify(job.payload));
      const rows = await database.prepared<{
        id: JobId | null;
        state: CreatedJob["state"];
        queue: string;
        unknown_type: string | null;
      }>(INSERT_JOBS, [
        jobs.map((job) => job.id),
        jobs.map((job) => job.type),
        jobs.map((job) => job.queue),
        payloads,
        payloads.map((payload) => Buffer.byteLength(payload) > INLINE_PAYLOAD_BYTES),
        jobs.map((job) => job.priority),
        jobs.map((job) => (job.due !== null && "at" in job.due ? job.due.at : null)),
        jobs.map((job) => (job.due !== null && "afterMs" in job.due ? job.due.afterMs : null)),
        jobs.map((job) => job.maxAttempts),
        jobs.map((job) => job.timeoutMs),
        isAlone ? CHANNEL : null,
        QUEUE_TOPIC,
      ]);
      const unknownTypes = rows.flatMap((row) => (row.unknown_type === null ? [] : [row.unknown_type]));
      if (unknownTypes.length > 0) return { unknownTypes };
      const created = new Map<JobId, CreatedJob>();
      for (const { id, state, queue } of rows) if (id !== null) created.set(id, { id, state, queue });
      if (!isAlone) {
        const enqueued = [...created.values()].filter((job) => job.state === "Enqueued");
        for (const queue of new Set(enqueued.map((job) => job.queue))) doorbell.ring({ kind: "queue", queue });
      }
      return { created: jobs.map((job) => present(created.get(job.id))) };
    },

    async loadJobTypes(types) {
      const rows = await database.query<{ name: string; definition: JobDefinition }>(LOAD_JOB_TYPES, [types]);
      return new Map(rows.map((row) => [row.name, row.definition]));
    },

    async cancelJob(id) {
      const row = await findMoving(() => database.query<{ state: JobState; cancelled: boolean }>(CANCEL_JOB, [id]));
      if (row === undefined) return { kind: "not-found" };
      if (row.cancelled) return { kind: "cancelled" };
      if (isFinal(row.state)) return { kind: "finished", state: row.state satisfies FinalState };
      doorbell.ring({ kind: "cancel", jobId: id });
      return { kind: "requested" };
    },

    async requeueJob(id) {
      const row = await findMoving(() =>
        onFinished<{ state: JobState; queue: string; requeued: boolean }>(REQUEUE_JOB, id),
      );
      if (row === undefined) return { kind: "not-found" };
      if (!row.requeued) return { kind: "refused", state: row.state };
      doorbell.ring({ kind: "queue", queue: row.queue });
      return { kind: "requeued" };
    },

    async deleteJob(id) {
      const row = await findMoving(() => onFinished<{ state: JobState; deleted: boolean }>(DELETE_JOB, id));
      if (row === undefined) return { kind: "not-found" };
      return row.deleted ? { kind: "deleted" } : { kind: "refused", state: row.state };
    },
  };

  function onFinished<Row extends object>(statement: string, id: JobId): Promise<Row[]> {
    return database.transaction(async (query) => {
      await query(LOCK_FINISHED, [id]);
      return query<Row>(statement, [id]);
    });
  }
}

/**
 * A job that moves between the live and the final partition while a statement waits for it is in neither of them for
 * that statement, whose snapshot is older. A second statement sees where it went.
 */
async function findMoving<Row>(ask: () => Promise<readonly Row[]>): Promise<Row | undefined> {
  const [row] = await ask();
  return row ?? (await ask())[0];
}

function present<Value>(value: Value | undefined): Value {
  assert(value !== undefined, "an inserted job did not come back from its own insert");
  return value;
}
