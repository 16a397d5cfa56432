import type { JobDefinition, ScheduleSpec } from "../../config/objects.ts";
import type { Json } from "../../core/json.ts";
import type {
  AttemptView,
  Concern,
  Declaration,
  FireView,
  JobDetail,
  JobLink,
  JobTypeView,
  JobView,
  PauseView,
  QueueView,
  RevisionView,
  RunningView,
  ScheduleView,
  Statistics,
  SyncView,
  TimelineEntry,
  WorkerView,
} from "../../protocol/ports/panel.ts";
import { type Hold, isFinal, type JobState } from "../../protocol/states.ts";
import { CHILDREN_SHOWN } from "./panel-job-statements.ts";

/** A row as the driver gives it: numbers of 64 bits are text, jsonb is parsed. */
export type Row = Readonly<Record<string, unknown>>;

export function readJob(row: Row): JobView {
  const state = row.state as JobState;
  const failures = number(row.failures);
  return {
    id: text(row.id),
    type: text(row.type),
    queue: text(row.queue),
    state,
    hold: row.hold as Hold | null,
    priority: number(row.priority),
    payload: (row.payload ?? null) as Json,
    result: (row.result ?? null) as Json,
    resultError: textOrNull(row.result_error),
    error: textOrNull(row.error),
    progress: number(row.progress),
    progressMessage: textOrNull(row.progress_message),
    // The failure that ended the job has been charged; it is not a further attempt.
    attempt: state === "Failed" && failures > 0 ? failures : failures + 1,
    maxAttempts: numberOrNull(row.max_attempts),
    timeoutMs: numberOrNull(row.timeout_ms),
    execution: number(row.execution),
    lost: number(row.lost),
    generation: number(row.generation),
    concurrencyKey: textOrNull(row.concurrency_key),
    runAt: date(row.run_at),
    createdAt: date(row.created_at),
    startedAt: dateOrNull(row.started_at),
    finishedAt: dateOrNull(row.finished_at),
    cancelRequested: row.cancel_requested === true,
    worker: textOrNull(row.worker),
    schedule: textOrNull(row.schedule),
    firedFor: dateOrNull(row.fire_at),
    lateByMs: numberOrNull(row.fire_late_ms),
    source: (row.source ?? null) as Declaration | null,
  };
}

export function readDetail(row: Row): JobDetail {
  const job = readJob(row);
  const attempts = ((row.attempts ?? []) as readonly Row[]).map(readAttempt);
  const children = (row.children ?? []) as readonly JobLink[];
  const fence = row.dispatch_id === null ? null : text(row.dispatch_id);
  return {
    ...job,
    now: date(row.now),
    attempts,
    timeline: readTimeline(job, row),
    parent: readParent(row),
    children: children.slice(0, CHILDREN_SHOWN),
    hasMoreChildren: children.length > CHILDREN_SHOWN,
    // A job that has ended runs no more, and starts afresh when it is requeued.
    runsAlone: isFinal(job.state) ? null : (row.runs_alone as JobDetail["runsAlone"]),
    fence,
    commitMessage: textOrNull(row.commit_message),
    committedAt: dateOrNull(row.committed_at),
  };
}

function readParent({ parent_id: id, parent }: Row): JobDetail["parent"] {
  if (id === null || id === undefined) return null;
  const { type = null, state = null } = (parent ?? {}) as Partial<JobLink>;
  return { id: text(id), type, state };
}

function readAttempt(row: Row): AttemptView {
  const startedAt = dateOrNull(row.startedAt);
  const finishedAt = date(row.finishedAt);
  return {
    execution: number(row.execution),
    worker: text(row.worker),
    outcome: row.outcome as AttemptView["outcome"],
    startedAt,
    finishedAt,
    durationMs: startedAt === null ? null : Math.max(0, finishedAt.getTime() - startedAt.getTime()),
    error: textOrNull(row.error),
    stack: textOrNull(row.stack),
    bundle: textOrNull(row.bundle),
    revision: numberOrNull(row.revision),
  };
}

/**
 * The recorded changes, and what no row says yet: the creation, the last time it entered its queue, and a claim whose
 * execution has not ended.
 */
function readTimeline(job: JobView, row: Row): readonly TimelineEntry[] {
  const entries = ((row.changes ?? []) as readonly Row[]).map(
    (change): TimelineEntry => ({
      at: date(change.at),
      from: change.from as JobState | null,
      to: change.to as JobState,
      reason: textOrNull(change.reason),
    }),
  );
  const enqueuedAt = dateOrNull(row.enqueued_at);
  const why = textOrNull(row.enqueued_why);
  if (enqueuedAt !== null && (why === "due" || why === "hold released") && !has(entries, "Enqueued", enqueuedAt)) {
    entries.push({ at: enqueuedAt, from: "Scheduled", to: "Enqueued", reason: why });
  }
  const claimedAt = dateOrNull(row.claimed_at);
  if (job.state === "Processing" && claimedAt !== null && !has(entries, "Processing", claimedAt)) {
    entries.push({ at: claimedAt, from: "Enqueued", to: "Processing", reason: "claimed" });
  }
  entries.sort((left, right) => left.at.getTime() - right.at.getTime() || rank(left.to) - rank(right.to));
  if (entries[0]?.from === null) return entries;
  const first = entries[0]?.from ?? (job.state === "Scheduled" ? "Scheduled" : "Enqueued");
  return [{ at: job.createdAt, from: null, to: first, reason: "created" }, ...entries];
}

function has(entries: readonly TimelineEntry[], to: JobState, at: Date): boolean {
  return entries.some((entry) => entry.to === to && entry.at.getTime() === at.getTime());
}

/** Order of changes within one millisecond. */
function rank(state: JobState): number {
  return isFinal(state) ? 3 : state === "Processing" ? 2 : 1;
}

export function readStatistics(row: Row): Statistics {
  const waiting = number(row.enqueued) + number(row.processing) - number(row.started);
  const minutes = (row.minutes ?? []) as readonly Row[];
  return {
    now: date(row.now),
    queued: Math.max(0, waiting),
    running: number(row.started),
    scheduled: Math.max(0, number(row.scheduled)),
    workers: number(row.workers),
    slots: number(row.slots),
    deadLetters: number(row.dead_letters),
    lastDay: {
      succeeded: number(row.succeeded),
      failed: number(row.failed),
      cancelled: number(row.cancelled),
      executions: number(row.executions),
      meanMs: numberOrNull(row.mean_ms),
    },
    minutes: minutes.map((minute) => ({
      minute: date(minute.minute),
      succeeded: Math.max(0, number(minute.succeeded)),
      failed: number(minute.failed),
    })),
  };
}

export function readWorker(row: Row): WorkerView {
  return {
    id: text(row.id),
    name: text(row.name),
    host: text(row.host),
    pid: number(row.pid),
    version: text(row.version),
    status: row.status as WorkerView["status"],
    queues: row.queues as WorkerView["queues"],
    registeredAt: date(row.registered_at),
    heartbeatAt: date(row.heartbeat_at),
    duties: row.duties as readonly string[],
    unloadableBundles: row.unloadable_bundles as readonly string[],
    clockSkewMs: numberOrNull(row.clock_skew_ms),
    handlersCutOff: number(row.handlers_cut_off),
    handlersStuck: number(row.handlers_stuck),
    leasesFailing: row.leases_failing === true,
    running: ((row.running ?? []) as readonly Row[]).map(
      (job): RunningView => ({
        id: text(job.id),
        type: text(job.type),
        queue: text(job.queue),
        startedAt: date(job.startedAt),
        progress: number(job.progress),
        progressMessage: textOrNull(job.progressMessage),
        timeoutMs: numberOrNull(job.timeoutMs),
        cancelRequested: job.cancelRequested === true,
      }),
    ),
  };
}

export function readJobType(row: Row): JobTypeView {
  const definition = row.definition as JobDefinition;
  return {
    name: text(row.name),
    description: textOrNull(row.description),
    handler: definition.handler,
    queue: text(row.queue),
    policy: textOrNull(row.policy),
    isolation: definition.isolation,
    timeoutMs: definition.timeoutMs,
    maxAttempts: definition.policy.retry.maxAttempts,
    payloadSchema: definition.payloadSchema,
    bundle: definition.bundleHash,
    removed: row.removed === true,
    source: (row.source ?? null) as Declaration | null,
  };
}

export function readQueue(row: Row): QueueView {
  const waiting = number(row.enqueued) + number(row.processing) - number(row.started);
  return {
    name: text(row.name),
    concurrency: numberOrNull(row.concurrency),
    suspended: row.suspended === true,
    pause: (row.pause ?? null) as PauseView | null,
    scheduled: Math.max(0, number(row.scheduled)),
    queued: Math.max(0, waiting),
    running: number(row.started),
    slots: number(row.slots),
    lastDay: { executions: number(row.executions), failures: number(row.failures), meanMs: numberOrNull(row.mean_ms) },
    source: (row.source ?? null) as Declaration | null,
  };
}

export function readSchedule(row: Row): ScheduleView {
  return {
    name: text(row.name),
    description: textOrNull(row.description),
    jobType: text(row.job_type),
    queue: textOrNull(row.queue),
    spec: row.spec as ScheduleSpec,
    timingHash: text(row.timing_hash),
    suspended: row.suspended === true,
    pause: (row.pause ?? null) as PauseView | null,
    nextFireAt: dateOrNull(row.next_fire_at),
    lastFireAt: dateOrNull(row.last_fire_at),
    lastJobId: textOrNull(row.last_job_id),
    awaitsFinish: row.awaits_finish === true,
    source: (row.source ?? null) as Declaration | null,
  };
}

export function readFire(row: Row): FireView {
  return {
    at: date(row.fire_at),
    outcome: row.outcome as FireView["outcome"],
    jobId: textOrNull(row.job_id),
    state: row.state as JobState | null,
    lateByMs: number(row.late_ms),
  };
}

/** Times of a concern come as text inside jsonb. */
export function readConcern(concern: Record<string, Json>): Concern {
  const read: Record<string, unknown> = { ...concern };
  for (const key of ["since", "deadline", "last"]) if (key in concern) read[key] = date(concern[key]);
  return read as unknown as Concern;
}

export function readRevision(row: Row): RevisionView {
  return {
    number: number(row.number),
    commit: textOrNull(row.commit_id),
    author: textOrNull(row.author),
    message: textOrNull(row.message),
    appliedAt: date(row.applied_at),
  };
}

export function readSync(row: Row): SyncView {
  const problem = row.problem as Row | null;
  return {
    ok: row.ok === true,
    checkedAt: date(row.checked_at),
    silent: row.silent === true,
    lastOkAt: dateOrNull(row.last_ok_at),
    problem:
      problem === null
        ? null
        : {
            code: text(problem.code),
            message: text(problem.message),
            file: textOrNull(problem.file),
            line: numberOrNull(problem.line),
            count: number(row.problems),
          },
  };
}

function text(value: unknown): string {
  return String(value);
}

function textOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : String(value);
}

/** Absent counts as 0: sums over no rows are null. */
function number(value: unknown): number {
  return value === null || value === undefined ? 0 : Number(value);
}

function numberOrNull(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value);
}

function date(value: unknown): Date {
  return value instanceof Date ? value : new Date(String(value));
}

function dateOrNull(value: unknown): Date | null {
  return value === null || value === undefined ? null : date(value);
}
