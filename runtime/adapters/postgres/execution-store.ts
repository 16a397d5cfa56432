import type { JobDefinition } from "../../config/objects.ts";
import { assert } from "../../core/assert.ts";
import { describeError } from "../../core/errors.ts";
import type { JobId, WorkerId } from "../../core/ids.ts";
import type { Logger } from "../../core/logger.ts";
import type { DeliveryStore, ExecutionStore, Finish, FinishOutcome, Ownership } from "../../protocol/ports/jobs.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { createBatcher, isDataRefused } from "./batcher.ts";
import { type ClaimedRow, readClaim, toToken } from "./claim-answer.ts";
import { type KeyedJob, releaseKeys } from "./concurrency-keys.ts";
import { createDeliveryStore } from "./delivery-store.ts";
import {
  CLAIM_JOBS,
  CLAIM_LIMITED_JOBS,
  CLAIM_LIMITED_RECOVERED_JOB,
  CLAIM_RECOVERED_JOB,
  COUNT_TAKEN,
  FIND_LANDED,
  FIND_OWNED,
  FINISH_OTHERWISE,
  FINISH_SUCCEEDED,
  LOAD_BUNDLE,
  LOAD_DEFINITIONS,
  LOCK_QUEUE,
  MARK_STARTED,
  REPORT_PROGRESS,
  RETURN_CLAIMS,
} from "./execution-statements.ts";
import { createHistoryMover, type FinishedHistory } from "./history-mover.ts";
import { insertSpecialJobs } from "./insert-jobs.ts";
import { type Database, isLockTimeout } from "./pool.ts";

export { toToken } from "./claim-answer.ts";

/** Most finishes that go in one statement. */
const FINISH_BATCH = 1_000;
/** As many go in one transaction when each may bring about more than its own end. */
const SPECIAL_BATCH = 200;
/** How long a queue's limit may be remembered: a limit set now binds claims after this. */
const QUEUE_MEMORY_MS = 1_000;
/**
 * How long a claim waits its turn at a limited queue. A process that stands still in its turn blocks it for half a minute; claims of
 * other queues must not stand behind it.
 */
const QUEUE_WAIT_MS = 1_000;
const FIRST_ID = "00000000-0000-0000-0000-000000000000";
/** Below every position: 4713 BC would do, the epoch less a million years is out of range, so year 1. */
const FIRST_POSITION_US = "-62135596800000000";

/** A row of a claim; the single one of a claim that took nothing has no id. */
type ClaimRow = { readonly closed: boolean } & (ClaimedRow | { readonly id: null });

interface SucceededAnswer {
  readonly landed: number;
  /** Those that landed; null: all did, or none. */
  readonly ids: readonly JobId[] | null;
  readonly history: readonly FinishedHistory[] | null;
}

/** Where the statements of a finish go, and what is told of their answers. */
interface FinishPath extends Pick<Database, "query" | "prepared"> {
  /** History that is to follow its job. */
  moveHistory(jobs: readonly FinishedHistory[]): void;
  /** Those that landed now, as they were wanted; not those whose first answer was lost. */
  noteLanded?(jobs: readonly JobId[]): void;
}

interface FinishRequest {
  readonly workerId: WorkerId;
  readonly finish: Finish;
}

export interface ExecutionStoreOptions {
  readonly database: Database;
  readonly logger: Logger;
  /** Monotonic milliseconds. */
  readonly monotonicMs: () => number;
  /** Told of jobs that a finish brought into their queue; without it they are found by polling. */
  readonly doorbell?: Pick<Doorbell, "ring">;
}

/** Claims, finishes and what lies between, on PostgreSQL; concurrent finishes share a statement. */
export function createExecutionStore({
  database,
  logger,
  monotonicMs,
  doorbell = { ring: () => {} },
}: ExecutionStoreOptions): ExecutionStore & DeliveryStore {
  /** Monotonic; before that a queue is known to be limited or suspended. */
  const limitedUntilMs = new Map<string, number>();
  const moveHistory = createHistoryMover({ database, logger });
  /** Each statement is a transaction of its own. */
  const single: FinishPath = { query: database.query, prepared: database.prepared, moveHistory };

  const finishSucceeded = createBatcher<FinishRequest, FinishOutcome>({
    lanes: 2,
    maxBatch: FINISH_BATCH,
    nextLaneAt: FINISH_BATCH / 2,
    run: (requests) => perWorker(requests, (workerId, finishes) => runSucceeded(single, workerId, finishes)),
  });
  const finishOtherwise = createBatcher<FinishRequest, FinishOutcome>({
    lanes: 1,
    maxBatch: FINISH_BATCH,
    run: (requests) => perWorker(requests, (workerId, finishes) => runOtherwise(single, workerId, finishes)),
  });
  /** More than one statement each: a transaction for all that wait. */
  const finishSpecial = createBatcher<FinishRequest, FinishOutcome>({
    lanes: 2,
    maxBatch: SPECIAL_BATCH,
    run: (requests) => perWorker(requests, runSpecial),
  });

  /** The end of executions together with what it brings about: keys that go on, children that come into being. */
  async function runSpecial(workerId: WorkerId, finishes: readonly Finish[]): Promise<readonly FinishOutcome[]> {
    const { outcomes, history, queues } = await database.transaction(async (query) => {
      const history: FinishedHistory[] = [];
      const landed = new Set<JobId>();
      const on: FinishPath = {
        query,
        prepared: query,
        moveHistory: (jobs) => void history.push(...jobs),
        noteLanded: (jobs) => jobs.forEach((job) => void landed.add(job)),
      };
      const outcomes = new Map<Finish, FinishOutcome>();
      for (const succeeds of [true, false]) {
        const group = finishes.filter((finish) => (finish.next === "Succeeded") === succeeds);
        if (group.length === 0) continue;
        const ended = await (succeeds ? runSucceeded : runOtherwise)(on, workerId, group);
        for (const [index, finish] of group.entries()) outcomes.set(finish, ended[index] ?? "fenced");
      }
      const born = finishes.flatMap(({ jobId, children = [] }) => (landed.has(jobId) ? children : []));
      const children = born.length === 0 ? [] : await insertSpecialJobs(query, born);
      const admitted = await releaseKeys(
        query,
        finishes.filter((finish) => outcomes.get(finish) !== "fenced").flatMap(keyed),
      );
      return {
        outcomes: finishes.map((finish) => outcomes.get(finish) ?? ("fenced" as const)),
        history,
        queues: [...children.filter((child) => child.state === "Enqueued"), ...admitted].map((job) => job.queue),
      };
    });
    moveHistory(history);
    ringQueues(queues);
    return outcomes;
  }

  function ringQueues(queues: readonly string[]): void {
    for (const queue of new Set(queues)) doorbell.ring({ kind: "queue", queue });
  }

  async function runSucceeded(
    on: FinishPath,
    workerId: WorkerId,
    finishes: readonly Finish[],
  ): Promise<readonly FinishOutcome[]> {
    const kinds = createKinds();
    const kindOf = finishes.map((finish) => kinds.numberOf(finish));
    const [answer] = await on.prepared<SucceededAnswer>(FINISH_SUCCEEDED, [
      workerId,
      plainArray(finishes.map((finish) => finish.jobId)),
      plainArray(finishes.map((finish) => finish.token)),
      sparseArray(finishes.map((finish) => finish.result)),
      sparseArray(finishes.map((finish) => finish.resultError)),
      plainArray(finishes.map((finish) => wholeMs(finish.ranMs))),
      plainArray(kindOf),
      ...kinds.arrays(),
    ]);
    assert(answer !== undefined, "an aggregate answers with one row");
    on.moveHistory(answer.history ?? []);
    on.noteLanded?.(answer.landed === finishes.length ? finishes.map(({ jobId }) => jobId) : (answer.ids ?? []));
    if (answer.landed === finishes.length) return finishes.map(() => "landed");
    return withReadBack(on, workerId, finishes, new Map((answer.ids ?? []).map((id) => [id, "landed"])));
  }

  async function runOtherwise(
    on: FinishPath,
    workerId: WorkerId,
    finishes: readonly Finish[],
  ): Promise<readonly FinishOutcome[]> {
    const landed = await on.query<FinishedHistory & { next: string }>(FINISH_OTHERWISE, [
      workerId,
      finishes.map((finish) => finish.jobId),
      finishes.map((finish) => String(finish.token)),
      finishes.map((finish) => finish.next),
      finishes.map((finish) => finish.outcome),
      finishes.map((finish) => finish.reason),
      finishes.map((finish) => finish.charge),
      finishes.map((finish) => Math.round(finish.delayMs)),
      finishes.map((finish) => finish.hold),
      finishes.map((finish) => finish.error),
      finishes.map((finish) => finish.stack),
      finishes.map((finish) => wholeMs(finish.ranMs)),
      finishes.map((finish) => finish.retainMs.failed),
      finishes.map((finish) => finish.retainMs.cancelled),
      finishes.map((finish) => finish.bundleHash),
      finishes.map((finish) => finish.revision),
    ]);
    on.moveHistory(landed);
    const wanted = new Map(finishes.map((finish) => [finish.jobId, finish.next]));
    on.noteLanded?.(landed.flatMap((row) => (row.next === wanted.get(row.id) ? [row.id] : [])));
    return withReadBack(
      on,
      workerId,
      finishes,
      new Map(landed.map((row) => [row.id, row.next === wanted.get(row.id) ? "landed" : "cancelled"])),
    );
  }

  /** A finish that did not land is fenced, unless it is one whose first answer was lost on the way. */
  async function withReadBack(
    on: FinishPath,
    workerId: WorkerId,
    finishes: readonly Finish[],
    outcomes: Map<JobId, FinishOutcome>,
  ): Promise<readonly FinishOutcome[]> {
    const missing = finishes.filter((finish) => !outcomes.has(finish.jobId));
    if (missing.length > 0) {
      const rows = await on.query<{ job_id: JobId; cancelled: boolean }>(FIND_LANDED, [
        workerId,
        missing.map((finish) => finish.jobId),
        missing.map((finish) => String(finish.token)),
        missing.map((finish) => finish.outcome),
        missing.map((finish) => finish.ranMs !== null),
      ]);
      const wanted = new Map(missing.map((finish) => [finish.jobId, finish.next]));
      for (const { job_id: id, cancelled } of rows)
        outcomes.set(id, cancelled && wanted.get(id) !== "Cancelled" ? "cancelled" : "landed");
    }
    return finishes.map((finish) => outcomes.get(finish.jobId) ?? "fenced");
  }

  /** Takes from a queue as far as its limit allows; `values` are the parameters of both statements. */
  async function claim(
    statements: { readonly open: string; readonly limited: string },
    values: readonly unknown[],
    limits: { readonly queue: string; readonly limit: number; readonly keepsRoom: boolean },
  ): Promise<{ readonly rows: readonly ClaimedRow[]; readonly limited: boolean }> {
    const nowMs = monotonicMs();
    if ((limitedUntilMs.get(limits.queue) ?? 0) <= nowMs) {
      const rows = await database.prepared<ClaimRow>(statements.open, values);
      if (rows[0]?.closed !== true) return { rows: claimedOf(rows), limited: false };
      limitedUntilMs.set(limits.queue, nowMs + QUEUE_MEMORY_MS);
    }
    if (limits.limit === 0) return { rows: [], limited: true };
    const rows = await database
      .transaction(
        async (query) => {
          const room = await readRoom(query, limits);
          if (room <= 0) return [];
          return claimedOf(
            await query<ClaimRow>(statements.limited, [...values.slice(0, 3), room, ...values.slice(4)]),
          );
        },
        { lockTimeoutMs: QUEUE_WAIT_MS },
      )
      .catch((error: unknown) => {
        if (isLockTimeout(error)) return [];
        throw error;
      });
    return { rows, limited: true };
  }

  return {
    ...createDeliveryStore(database, doorbell),

    async claimJobs({ workerId, queue, limit, after, exceptTypes }) {
      const [position, id] = after?.split("/") ?? [FIRST_POSITION_US, FIRST_ID];
      const { rows, limited } = await claim(
        { open: CLAIM_JOBS, limited: CLAIM_LIMITED_JOBS },
        [queue, position, id, limit, workerId, exceptTypes],
        { queue, limit, keepsRoom: true },
      );
      const { jobs, last } = readClaim(rows);
      const cursor = last === null ? after : `${last.positionUs}/${last.id}`;
      return limited ? { jobs, cursor, limited } : { jobs, cursor };
    },

    async claimRecovered({ workerId, queue, exceptTypes }) {
      const { rows } = await claim(
        { open: CLAIM_RECOVERED_JOB, limited: CLAIM_LIMITED_RECOVERED_JOB },
        [queue, FIRST_POSITION_US, FIRST_ID, 1, workerId, exceptTypes],
        { queue, limit: 1, keepsRoom: false },
      );
      return readClaim(rows).jobs[0] ?? null;
    },

    async findOwned({ workerId, known }) {
      const rows = await database.query<{ id: JobId; dispatch_id: string }>(FIND_OWNED, [workerId]);
      const mine = new Set(known.map((pair) => `${pair.jobId}/${pair.token}`));
      return rows
        .filter((row) => !mine.has(`${row.id}/${row.dispatch_id}`))
        .map((row) => ({ jobId: row.id, token: toToken(row.dispatch_id) }));
    },

    async loadDefinitions(hashes) {
      const rows = await database.query<{ hash: string; definition: JobDefinition }>(LOAD_DEFINITIONS, [hashes]);
      return new Map(rows.map((row) => [row.hash, row.definition]));
    },

    async loadBundle(hash) {
      const [row] = await database.query<{ code: string }>(LOAD_BUNDLE, [hash]);
      return row?.code ?? null;
    },

    finishJob(workerId, finish) {
      const isSpecial = (finish.concurrencyKey ?? null) !== null || (finish.children?.length ?? 0) > 0;
      if (finish.next !== "Succeeded") return (isSpecial ? finishSpecial : finishOtherwise)({ workerId, finish });
      const succeed = isSpecial ? finishSpecial : finishSucceeded;
      const landing = succeed({ workerId, finish });
      if (finish.result === null) return landing;
      return landing.catch((error: unknown) => {
        // The work succeeded; only its result cannot be kept.
        if (!isDataRefused(error)) throw error;
        const resultError = `the result could not be stored: ${describeError(error)}`;
        return succeed({ workerId, finish: { ...finish, result: null, resultError } });
      });
    },

    async returnClaims(workerId, claims) {
      const admitted = await database.transaction(async (query) => {
        const rows = await query<{ id: JobId; key: string | null }>(RETURN_CLAIMS, [workerId, ...pairs(claims)]);
        return releaseKeys(query, rows.flatMap(withKey));
      });
      ringQueues(admitted.map((job) => job.queue));
    },

    async markStarted(workerId, starts) {
      await note(starts, async (some) =>
        database.query(MARK_STARTED, [workerId, ...pairs(some), some.map((start) => wholeMs(start.runningMs))]),
      );
    },

    async reportProgress(workerId, reports) {
      await note(reports, async (some) =>
        database.query(REPORT_PROGRESS, [
          workerId,
          ...pairs(some),
          some.map((report) => report.percent),
          some.map((report) => report.message),
        ]),
      );
    },
  };

  /** Answers name jobs: two executions of one, a late one and that which came after it, go in statements of their own. */
  function perWorker(
    requests: readonly FinishRequest[],
    run: (workerId: WorkerId, finishes: readonly Finish[]) => Promise<readonly FinishOutcome[]>,
  ): Promise<readonly FinishOutcome[]> {
    const [first] = requests;
    if (first === undefined) return Promise.resolve([]);
    const jobs = new Set(requests.map(({ finish }) => finish.jobId));
    if (jobs.size === requests.length && requests.every((request) => request.workerId === first.workerId)) {
      return run(
        first.workerId,
        requests.map((request) => request.finish),
      );
    }
    return Promise.all(
      requests.map(async (request) => (await run(request.workerId, [request.finish]))[0] ?? ("fenced" as const)),
    );
  }
}

function keyed({ jobId, concurrencyKey = null }: Finish): readonly KeyedJob[] {
  return concurrencyKey === null ? [] : [{ id: jobId, key: concurrencyKey }];
}

function withKey({ id, key }: { readonly id: JobId; readonly key: string | null }): readonly KeyedJob[] {
  return key === null ? [] : [{ id, key }];
}

/** Once more for what was locked: by a renewal it is free again, by a finish it is over. */
async function note<Note extends Ownership>(
  notes: readonly Note[],
  send: (notes: readonly Note[]) => Promise<readonly { readonly id: JobId }[]>,
): Promise<void> {
  const locked = new Set((await send(notes)).map((row) => row.id));
  if (locked.size > 0) await send(notes.filter((one) => locked.has(one.jobId)));
}

/** Under the queue's lock: how many more may run. */
async function readRoom(
  query: Database["query"],
  { queue, limit, keepsRoom }: { readonly queue: string; readonly limit: number; readonly keepsRoom: boolean },
): Promise<number> {
  const [settings] = await query<{ concurrency: number | null; suspended: boolean }>(LOCK_QUEUE, [queue]);
  if (settings?.suspended === true) return 0;
  if (settings === undefined || settings.concurrency === null) return limit;
  const [taken] = await query<{ processing: number; waiting: number }>(COUNT_TAKEN, [queue]);
  const { processing, waiting } = taken ?? { processing: 0, waiting: 0 };
  return Math.min(limit, settings.concurrency - processing - (keepsRoom ? waiting : 0));
}

function claimedOf(rows: readonly ClaimRow[]): readonly ClaimedRow[] {
  return rows.filter((row): row is ClaimedRow & { readonly closed: boolean } => row.id !== null);
}

/** The two arrays that name executions in a statement. */
export function pairs(owned: readonly Ownership[]): [JobId[], string[]] {
  return [owned.map((pair) => pair.jobId), owned.map((pair) => String(pair.token))];
}

function wholeMs(ms: number | null): number | null {
  return ms === null ? null : Math.max(0, Math.round(ms));
}

/** What executions of one definition have in common, said once a statement. */
function createKinds() {
  const retainMs: number[] = [];
  const bundles: (string | null)[] = [];
  const revisions: (number | null)[] = [];
  return {
    numberOf({ retainMs: { succeeded }, bundleHash, revision }: Finish): number {
      for (let index = 0; index < retainMs.length; index += 1) {
        if (retainMs[index] === succeeded && bundles[index] === bundleHash && revisions[index] === revision) {
          return index + 1;
        }
      }
      retainMs.push(succeeded);
      bundles.push(bundleHash);
      return revisions.push(revision);
    },
    arrays: () => [retainMs, bundles, revisions],
  };
}

/** An array literal of values that need no quotes: ids and whole numbers. */
function plainArray(values: readonly (string | number | bigint | null)[]): string {
  return `{${values.map((value) => value ?? "NULL").join(",")}}`;
}

/** An array that unnest fills with nulls; most hold nothing else. */
function sparseArray(values: readonly (string | null)[]): readonly (string | null)[] {
  return values.every((value) => value === null) ? [] : values;
}
