import type { JobDefinition } from "../../config/objects.ts";
import type { JobId } from "../../core/ids.ts";
import type { CreatedJob, InsertOnceOutcome, JobStore, NewJob, OnceKey } from "../../protocol/ports/jobs.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { type FinalState, isFinal, type JobState } from "../../protocol/states.ts";
import { releaseKeys, takeKeys } from "./concurrency-keys.ts";
import { CHANNEL, QUEUE_TOPIC } from "./doorbell-listener.ts";
import {
  type InsertedRow,
  insertSpecialJobs,
  isInline,
  jobArrays,
  present,
  readInserted,
  UnknownTypes,
} from "./insert-jobs.ts";
import {
  CANCEL_JOB,
  DELETE_JOB,
  HOLD_REQUEUED,
  INSERT_JOBS,
  INSERT_ONE_JOB,
  LOAD_JOB_TYPES,
  LOCK_FINISHED,
  REQUEUE_JOB,
} from "./job-statements.ts";
import { ANSWER_IDEMPOTENCY_KEY, READ_IDEMPOTENCY_KEY, TAKE_IDEMPOTENCY_KEY } from "./once-statements.ts";
import { type Database, isLockTimeout } from "./pool.ts";
import { RingShare } from "./ring-share.ts";

/** How long a request waits for another one with the same idempotency key. */
const ONCE_WAIT_MS = 5_000;

/** Creating, cancelling, requeueing and deleting jobs. Rings with or after the commit; a lost ring costs one poll. */
export function createJobStore(database: Database, doorbell: Pick<Doorbell, "ring">): JobStore {
  const share = new RingShare();
  return {
    async insertJobs(jobs) {
      if (jobs.some(isSpecial)) {
        return unlessUnknown(async () => {
          const created = await database.transaction((query) => insertSpecialJobs(query, jobs));
          ringCreated(created);
          return { created };
        });
      }
      const rings = share.begin(performance.now());
      return unlessUnknown(async () => {
        const created = await insertPlain(jobs, rings).finally(() => rings && share.end(performance.now()));
        if (!rings) ringCreated(created);
        return { created };
      });
    },

    async insertJobsOnce(jobs, once) {
      try {
        return await unlessUnknown(async () => {
          const outcome = await database.transaction((query) => insertOnce(query, jobs, once), {
            lockTimeoutMs: ONCE_WAIT_MS,
          });
          if ("created" in outcome) ringCreated(outcome.created);
          return outcome;
        });
      } catch (error) {
        if (isLockTimeout(error)) return { refused: "in-progress" };
        throw error;
      }
    },

    async loadJobTypes(types) {
      const rows = await database.query<{ name: string; definition: JobDefinition }>(LOAD_JOB_TYPES, [types]);
      return new Map(rows.map((row) => [row.name, row.definition]));
    },

    async cancelJob(id) {
      const row = await findMoving(() => cancel(id));
      if (row === undefined) return { kind: "not-found" };
      if (row.cancelled) return { kind: "cancelled" };
      if (isFinal(row.state)) return { kind: "finished", state: row.state satisfies FinalState };
      doorbell.ring({ kind: "cancel", jobId: id });
      return { kind: "requested" };
    },

    async requeueJob(id) {
      const row = await findMoving(() => requeue(id));
      if (row === undefined) return { kind: "not-found" };
      if (!row.requeued) return { kind: "refused", state: row.state };
      if (row.held) return { kind: "requeued", held: true };
      doorbell.ring({ kind: "queue", queue: row.queue });
      return { kind: "requeued" };
    },

    async deleteJob(id) {
      const row = await findMoving(() =>
        onFinished(id, (query) => query<{ state: JobState; deleted: boolean }>(DELETE_JOB, [id])),
      );
      if (row === undefined) return { kind: "not-found" };
      return row.deleted ? { kind: "deleted" } : { kind: "refused", state: row.state };
    },
  };

  function insertPlain(jobs: readonly NewJob[], rings: boolean): Promise<readonly CreatedJob[]> {
    const [first] = jobs;
    return first !== undefined && jobs.length === 1 && fitsOneRow(first)
      ? insertOne(first, rings)
      : insertMany(jobs, rings);
  }

  /** Throws UnknownTypes. */
  async function insertOne(job: NewJob, rings: boolean): Promise<readonly CreatedJob[]> {
    const { id, type, queue, priority, maxAttempts, timeoutMs } = job;
    const ring = [rings ? CHANNEL : null, QUEUE_TOPIC];
    const values = [id, type, queue, JSON.stringify(job.payload), priority, maxAttempts, timeoutMs, ...ring];
    const [row] = await database.prepared<{ queue: string }>(INSERT_ONE_JOB, values);
    if (row === undefined) throw new UnknownTypes([type]);
    return [{ id, state: "Enqueued", queue: row.queue }];
  }

  /** Throws UnknownTypes. */
  async function insertMany(jobs: readonly NewJob[], rings: boolean): Promise<readonly CreatedJob[]> {
    const values = [...jobArrays(jobs), rings ? CHANNEL : null, QUEUE_TOPIC];
    const created = readInserted(await database.prepared<InsertedRow>(INSERT_JOBS, values));
    return jobs.map((job) => present(created.get(job.id)));
  }

  function ringCreated(jobs: readonly CreatedJob[]): void {
    ringQueues(jobs.filter((job) => job.state === "Enqueued" && job.duplicate !== true));
  }

  function ringQueues(jobs: readonly { readonly queue: string }[]): void {
    for (const queue of new Set(jobs.map((job) => job.queue))) doorbell.ring({ kind: "queue", queue });
  }

  /** Its concurrency key goes on in the same transaction. */
  async function cancel(id: JobId): Promise<readonly { state: JobState; cancelled: boolean }[]> {
    const { rows, admitted } = await database.transaction(async (query) => {
      const rows = await query<{ state: JobState; cancelled: boolean; key: string | null }>(CANCEL_JOB, [id]);
      const left = rows.flatMap(({ key }) => (key === null ? [] : [{ id, key }]));
      return { rows, admitted: await releaseKeys(query, left) };
    });
    ringQueues(admitted);
    return rows;
  }

  function requeue(
    id: JobId,
  ): Promise<readonly { state: JobState; queue: string; requeued: boolean; held: boolean }[]> {
    return onFinished(id, async (query) => {
      const rows = await query<{ state: JobState; queue: string; requeued: boolean; key: string | null }>(REQUEUE_JOB, [
        id,
      ]);
      const keys = rows.flatMap(({ key }) => key ?? []);
      const held = keys.length > 0 && !(await takeKeys(query, keys)).some((job) => job.id === id);
      if (held) await query(HOLD_REQUEUED, [id]);
      return rows.map((row) => ({ ...row, held }));
    });
  }

  function onFinished<Result>(id: JobId, act: (query: Database["query"]) => Promise<Result>): Promise<Result> {
    return database.transaction(async (query) => {
      await query(LOCK_FINISHED, [id]);
      return act(query);
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

function isSpecial({ concurrencyKey, parentId, unique }: NewJob): boolean {
  return (concurrencyKey ?? parentId ?? unique ?? null) !== null;
}

/** Due now, with a payload that stays in its row. */
function fitsOneRow({ due, payload }: NewJob): boolean {
  return due === null && isInline(JSON.stringify(payload));
}

async function unlessUnknown<Outcome>(
  insert: () => Promise<Outcome>,
): Promise<Outcome | { readonly unknownTypes: readonly string[] }> {
  try {
    return await insert();
  } catch (error) {
    if (error instanceof UnknownTypes) return { unknownTypes: error.types };
    throw error;
  }
}

/** The key, the jobs and the answer, all or nothing. */
async function insertOnce(
  query: Database["query"],
  jobs: readonly NewJob[],
  { scope, key, requestHash, retainMs }: OnceKey,
): Promise<InsertOnceOutcome> {
  const taken = await query(TAKE_IDEMPOTENCY_KEY, [scope, key, requestHash, retainMs]);
  if (taken.length === 0) {
    const [first] = await query<{ request_hash: string; answer: readonly CreatedJob[] }>(READ_IDEMPOTENCY_KEY, [
      scope,
      key,
    ]);
    return first?.request_hash === requestHash ? { replayed: first.answer } : { refused: "other-request" };
  }
  const created = await insertSpecialJobs(query, jobs);
  await query(ANSWER_IDEMPOTENCY_KEY, [scope, key, JSON.stringify(created)]);
  return { created };
}
