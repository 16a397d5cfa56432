import { assert } from "../../core/assert.ts";
import type { JobId } from "../../core/ids.ts";
import type { CreatedJob, NewJob } from "../../protocol/ports/jobs.ts";
import type { JobState } from "../../protocol/states.ts";
import { takeKeys } from "./concurrency-keys.ts";
import { INSERT_SPECIAL_JOBS } from "./job-statements.ts";
import type { Database } from "./pool.ts";
import { findDuplicates } from "./unique-jobs.ts";

/** Payloads above this many bytes of JSON are stored once, beside the row. */
const INLINE_PAYLOAD_BYTES = 2_048;

/** What inserts answer: a row a job, or one a type that is not declared. */
export interface InsertedRow {
  readonly id: JobId | null;
  readonly state: JobState;
  readonly queue: string;
  readonly unknown_type: string | null;
}

/** Thrown through the transaction, so that nothing of it stays. */
export class UnknownTypes extends Error {
  readonly types: readonly string[];

  constructor(types: readonly string[]) {
    super("job types are not declared");
    this.types = types;
  }
}

/** JSON text that stays in its row. */
export function isInline(payload: string): boolean {
  return Buffer.byteLength(payload) <= INLINE_PAYLOAD_BYTES;
}

/** The arrays that all inserts begin with. */
export function jobArrays(jobs: readonly NewJob[]): readonly unknown[] {
  const payloads = jobs.map((job) => JSON.stringify(job.payload));
  return [
    jobs.map((job) => job.id),
    jobs.map((job) => job.type),
    jobs.map((job) => job.queue),
    payloads,
    payloads.map((payload) => !isInline(payload)),
    jobs.map((job) => job.priority),
    jobs.map((job) => (job.due !== null && "at" in job.due ? job.due.at : null)),
    jobs.map((job) => (job.due !== null && "afterMs" in job.due ? job.due.afterMs : null)),
    jobs.map((job) => job.maxAttempts),
    jobs.map((job) => job.timeoutMs),
  ];
}

/**
 * Inserts jobs of any kind within a transaction: gives them their concurrency keys where those are free, and leaves out those for
 * which another with the same unique key counts. Answers in the jobs' order; throws UnknownTypes.
 */
export async function insertSpecialJobs(
  query: Database["query"],
  jobs: readonly NewJob[],
): Promise<readonly CreatedJob[]> {
  const existing = await findDuplicates(query, jobs);
  const wanted = jobs.filter((job) => !existing.has(job.id));
  const rows =
    wanted.length === 0
      ? []
      : await query<InsertedRow & { id: JobId | null }>(INSERT_SPECIAL_JOBS, [
          ...jobArrays(wanted),
          wanted.map((job) => job.concurrencyKey ?? null),
          wanted.map((job) => job.parentId ?? null),
        ]);
  const created = readInserted(rows);
  const keys = wanted.flatMap(({ concurrencyKey }) => concurrencyKey ?? []);
  for (const { id } of await takeKeys(query, keys)) {
    const job = created.get(id);
    if (job !== undefined) created.set(id, { ...job, state: "Enqueued" });
  }
  return jobs.map(({ id }) => {
    const duplicate = existing.get(id);
    if (duplicate === undefined) return present(created.get(id));
    return { ...(created.get(duplicate.id) ?? duplicate), duplicate: true };
  });
}

/** Throws UnknownTypes. */
export function readInserted(rows: readonly InsertedRow[]): Map<JobId, CreatedJob> {
  const unknownTypes = rows.flatMap((row) => (row.unknown_type === null ? [] : [row.unknown_type]));
  if (unknownTypes.length > 0) throw new UnknownTypes(unknownTypes);
  return new Map(rows.flatMap(({ id, state, queue }) => (id === null ? [] : [[id, { id, state, queue }] as const])));
}

export function present(job: CreatedJob | undefined): CreatedJob {
  assert(job !== undefined, "an inserted job did not come back from its own insert");
  return job;
}
