import type { JobId } from "../../core/ids.ts";
import type { CreatedJob, NewJob } from "../../protocol/ports/jobs.ts";
import { takeKeys } from "./concurrency-keys.ts";
import { INSERT_SPECIAL_JOBS } from "./job-statements.ts";
import type { Database } from "./pool.ts";

/** Payloads above this many bytes of JSON are stored once, beside the row. */
const INLINE_PAYLOAD_BYTES = 2_048;

/** What inserts answer: a row a job, or one a type that is not declared. */
export interface InsertedRow {
  readonly id: JobId | null;
  readonly state: CreatedJob["state"];
  readonly queue: string;
  readonly unknown_type: string | null;
}

/** The arrays that all inserts begin with. */
export function jobArrays(jobs: readonly NewJob[]): readonly unknown[] {
  const payloads = jobs.map((job) => JSON.stringify(job.payload));
  return [
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
  ];
}

/** Inserts jobs of any kind within a transaction, and gives them their concurrency keys where those are free. */
export async function insertSpecialJobs(
  query: Database["query"],
  jobs: readonly NewJob[],
): Promise<readonly InsertedRow[]> {
  const rows = await query<InsertedRow & { id: JobId | null }>(INSERT_SPECIAL_JOBS, [
    ...jobArrays(jobs),
    jobs.map((job) => job.concurrencyKey ?? null),
    jobs.map((job) => job.parentId ?? null),
  ]);
  const keys = jobs.flatMap(({ concurrencyKey }) => concurrencyKey ?? []);
  if (rows.some((row) => row.id === null)) return rows;
  const admitted = new Set((await takeKeys(query, keys)).map((job) => job.id));
  return rows.map((row) => (row.id !== null && admitted.has(row.id) ? { ...row, state: "Enqueued" } : row));
}
