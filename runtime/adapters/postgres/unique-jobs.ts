import type { JobId } from "../../core/ids.ts";
import type { CreatedJob, NewJob, UniqueWish } from "../../protocol/ports/jobs.ts";
import type { JobState } from "../../protocol/states.ts";
import { CLAIM_UNIQUE, READ_UNIQUE, REPLACE_UNIQUE } from "./once-statements.ts";
import type { Database } from "./pool.ts";

type UniqueJob = NewJob & { readonly unique: UniqueWish };

/**
 * Which of the jobs are answered with another one, by their ids; the others count from now on, if the transaction is committed. Whoever
 * asks for the same key waits for it.
 */
export async function findDuplicates(
  query: Database["query"],
  jobs: readonly NewJob[],
): Promise<ReadonlyMap<JobId, CreatedJob>> {
  const duplicates = new Map<JobId, CreatedJob>();
  const firsts = new Map<string, UniqueJob>();
  const repeated: (readonly [JobId, string])[] = [];
  for (const job of jobs) {
    if (!isUnique(job)) continue;
    const place = placeOf(job.type, job.unique.key);
    if (firsts.has(place)) repeated.push([job.id, place]);
    else firsts.set(place, job);
  }
  if (firsts.size === 0) return duplicates;

  const claimed = await query<{ type: string; key: string }>(CLAIM_UNIQUE, arraysOf([...firsts.values()]));
  const isFree = new Set(claimed.map(({ type, key }) => placeOf(type, key)));
  const contested = [...firsts].flatMap(([place, job]) => (isFree.has(place) ? [] : [job]));
  if (contested.length > 0) {
    const counting = await query<{ type: string; key: string; id: JobId; state: JobState; queue: string }>(
      READ_UNIQUE,
      [contested.map((job) => job.type), contested.map((job) => job.unique.key)],
    );
    const found = new Map(counting.map(({ type, key, ...job }) => [placeOf(type, key), job]));
    for (const job of contested) {
      const existing = found.get(placeOf(job.type, job.unique.key));
      if (existing !== undefined) duplicates.set(job.id, existing);
    }
    const past = contested.filter((job) => !duplicates.has(job.id));
    if (past.length > 0) await query(REPLACE_UNIQUE, arraysOf(past));
  }
  for (const [id, place] of repeated) {
    const first = firsts.get(place);
    if (first === undefined) continue;
    duplicates.set(id, duplicates.get(first.id) ?? { id: first.id, state: "Enqueued", queue: first.queue ?? "" });
  }
  return duplicates;
}

function isUnique(job: NewJob): job is UniqueJob {
  return (job.unique ?? null) !== null;
}

function placeOf(type: string, key: string): string {
  return `${type}\u0000${key}`;
}

function arraysOf(jobs: readonly UniqueJob[]): readonly unknown[] {
  return [
    jobs.map((job) => job.type),
    jobs.map((job) => job.unique.key),
    jobs.map((job) => job.id),
    jobs.map((job) => job.unique.until),
    jobs.map((job) => job.unique.forMs),
  ];
}
