import type { JobDefinition, ScheduleSpec } from "../../config/objects.ts";
import { assert } from "../../core/assert.ts";
import type { DispatchToken, JobId, WorkerId } from "../../core/ids.ts";
import type { Json } from "../../core/json.ts";
import type { AttemptOutcome, CreatedJob, NewJob, Ownership } from "../../protocol/ports/jobs.ts";
import type { Pause, PauseTarget } from "../../protocol/ports/pauses.ts";
import type { WorkerCondition, WorkerInfo } from "../../protocol/ports/workers.ts";
import { assertMove, type FinalState, type Hold, type JobState, type TransitionReason } from "../../protocol/states.ts";
import { deadLetterOf, MemoryOutbox } from "./outbox.ts";
import { RunnableOrder } from "./runnable-order.ts";

/** A job as the table has it; times are milliseconds of the database's clock. */
export interface JobRow {
  readonly id: JobId;
  readonly type: string;
  readonly queue: string;
  readonly payload: Json;
  readonly priority: number;
  readonly maxAttempts: number | null;
  readonly timeoutMs: number | null;
  readonly concurrencyKey?: string | null;
  readonly schedule: { readonly name: string; readonly firedFor: Date; readonly lateByMs: number } | null;
  state: JobState;
  hold: Hold | null;
  token: DispatchToken | null;
  /** Into its queue; null: never. */
  enqueuedAtMs: number | null;
  /** Of the last execution that put the job off. */
  releasedToken: DispatchToken | null;
  runAtMs: number;
  sortAtMs: number;
  workerId: WorkerId | null;
  startedAtMs: number | null;
  finishedAtMs: number | null;
  leaseCounter: number;
  recovered: boolean;
  cancelRequested: boolean;
  failures: number;
  execution: number;
  lost: number;
  lostUnstarted: number;
  returns: number;
  generation: number;
  progress: number;
  progressMessage: string | null;
  result: string | null;
  resultError: string | null;
  error: string | null;
  readonly attempts: AttemptRow[];
  readonly timeline: { readonly from: JobState | null; readonly to: JobState; readonly reason: TransitionReason }[];
}

export interface AttemptRow {
  readonly execution: number;
  readonly token: DispatchToken;
  readonly workerId: WorkerId;
  readonly outcome: AttemptOutcome;
  readonly error: string | null;
}

export interface ScheduleRow {
  readonly name: string;
  spec: ScheduleSpec;
  timingHash: string;
  nextFireAtMs: number | null;
  lastJobId: JobId | null;
  awaitsFinish: boolean;
  firedColdStart: number;
  /** Up to here every instant has fired or was left out; absent: not known. */
  decidedUntilMs?: number;
  /** What is expected of it, as far as it was judged; absent: nothing is. */
  sla?: {
    readonly dueAtMs: number;
    readonly sinceMs: number;
    readonly judgedAtMs: number | null;
    readonly successAtMs: number | null;
  };
}

export interface FireRow {
  readonly schedule: string;
  readonly atMs: number;
  readonly outcome: "fired" | "missed" | "superseded" | "overlapped" | "calendar" | "manual" | "on-start";
  readonly jobId: JobId | null;
  readonly blockedBy: JobId | null;
  /** Instants skipped before this one that have no row of their own. */
  readonly olderSkips: number;
}

export interface WorkerRow {
  readonly info: WorkerInfo;
  heartbeatAtMs: number;
  leftAtMs: number | null;
  draining: boolean;
  unloadableBundles: readonly string[];
  /** Null before the first heartbeat. */
  condition: WorkerCondition | null;
}

/** A worker that was silent for longer is taken for gone. */
export const ALIVE_MS = 30_000;
const PRIORITY_MS = 60_000;

/** The tables, and the few moves that several stores share. One call of a store is one atomic step. */
export class MemoryDatabase {
  readonly jobs = new Map<JobId, JobRow>();
  /** Jobs in Processing; every claim and finish passes through here. */
  readonly processing = new Set<JobRow>();
  /** Jobs in Scheduled. */
  readonly scheduled = new Set<JobRow>();
  readonly types = new Map<
    string,
    { readonly definition: JobDefinition; readonly hash: string; readonly revision: number }
  >();
  readonly definitions = new Map<string, JobDefinition>();
  readonly bundles = new Map<string, string>();
  readonly queues = new Map<string, { readonly concurrency: number | null; readonly suspended: boolean }>();
  readonly slaMisses: { readonly schedule: string; readonly expectation: string; readonly dueAtMs: number }[] = [];
  /** By `Kind/name`. */
  readonly pauses = new Map<string, PauseTarget & { readonly pause: Pause }>();
  /** Who has a concurrency key: a job in Enqueued or Processing. */
  readonly keys = new Map<string, JobId>();
  /** By type and key. */
  readonly uniqueJobs = new Map<string, { readonly job: NewJob; readonly expiresAtMs: number }>();
  /** By scope and key. */
  readonly answers = new Map<
    string,
    { readonly requestHash: string; readonly created: readonly CreatedJob[]; readonly expiresAtMs: number }
  >();
  readonly deadLetters: { readonly jobId: JobId; readonly reason: string; readonly error: string | null }[] = [];
  readonly schedules = new Map<string, ScheduleRow>();
  readonly fires: FireRow[] = [];
  readonly workers = new Map<WorkerId, WorkerRow>();
  readonly terms = new Map<string, { readonly workerId: WorkerId; readonly expiresAtMs: number }>();
  coldStarts = 0;
  readonly outbox: MemoryOutbox;
  readonly nowMs: () => number;
  #token = 0n;
  readonly #runnable = new Map<
    string,
    { readonly usual: RunnableOrder<JobRow>; readonly recovered: RunnableOrder<JobRow> }
  >();

  constructor(nowMs: () => number) {
    this.nowMs = nowMs;
    this.outbox = new MemoryOutbox(nowMs);
  }

  /** The newest token that was given out. */
  get lastToken(): bigint {
    return this.#token;
  }

  runnable(queue: string): { readonly usual: RunnableOrder<JobRow>; readonly recovered: RunnableOrder<JobRow> } {
    let order = this.#runnable.get(queue);
    if (order === undefined)
      this.#runnable.set(queue, (order = { usual: new RunnableOrder(), recovered: new RunnableOrder() }));
    return order;
  }

  /** A job that is asked for, or the one that counts in its place. */
  insertUnique(job: NewJob): { readonly row: JobRow; readonly isDuplicate: boolean } {
    const { type, unique = null } = job;
    if (unique === null) return { row: this.insert(job), isDuplicate: false };
    const place = `${type}\u0000${unique.key}`;
    const counting = this.#counting(place);
    if (counting !== null) return { row: counting, isDuplicate: true };
    const expiresAtMs = unique.forMs === null ? Number.POSITIVE_INFINITY : this.nowMs() + unique.forMs;
    this.uniqueJobs.set(place, { job, expiresAtMs });
    return { row: this.insert(job), isDuplicate: false };
  }

  #counting(place: string): JobRow | null {
    const held = this.uniqueJobs.get(place);
    const row = held === undefined ? undefined : this.jobs.get(held.job.id);
    if (held === undefined || row === undefined || held.expiresAtMs <= this.nowMs()) return null;
    const { until = null } = held.job.unique ?? {};
    if (until === null) return row;
    return row.finishedAtMs === null && (until === "finished" || row.execution === 0) ? row : null;
  }

  /** Of a type that is not declared, it is held. */
  insert(job: NewJob): JobRow {
    const definition = this.types.get(job.type)?.definition;
    const nowMs = this.nowMs();
    const runAtMs = job.due === null ? nowMs : "at" in job.due ? job.due.at.getTime() : nowMs + job.due.afterMs;
    const queue = job.queue ?? definition?.queue ?? "default";
    return this.create({ ...job, queue, schedule: null, runAtMs }, definition === undefined ? "no-handler" : null);
  }

  /** (new) → Enqueued, or Scheduled when it is due later, or held: another job has its concurrency key, or as is said. */
  create(
    job: Pick<
      JobRow,
      | "id"
      | "type"
      | "queue"
      | "payload"
      | "priority"
      | "maxAttempts"
      | "timeoutMs"
      | "concurrencyKey"
      | "schedule"
      | "runAtMs"
    >,
    hold: Hold | null = null,
  ): JobRow {
    assert(!this.jobs.has(job.id), `the job ${job.id} exists`);
    const row: JobRow = {
      ...job,
      state: "Scheduled",
      hold,
      token: null,
      enqueuedAtMs: null,
      releasedToken: null,
      sortAtMs: job.runAtMs - job.priority * PRIORITY_MS,
      workerId: null,
      startedAtMs: null,
      finishedAtMs: null,
      leaseCounter: 0,
      recovered: false,
      cancelRequested: false,
      failures: 0,
      execution: 0,
      lost: 0,
      lostUnstarted: 0,
      returns: 0,
      generation: 0,
      progress: 0,
      progressMessage: null,
      result: null,
      resultError: null,
      error: null,
      attempts: [],
      timeline: [],
    };
    this.jobs.set(row.id, row);
    const isDue = job.runAtMs <= this.nowMs();
    if (isDue && hold === null && !this.#takeKey(row)) row.hold = "key";
    this.#note(row, null, isDue && row.hold === null ? "Enqueued" : "Scheduled", "created");
    if (row.state === "Enqueued") this.#mint(row);
    else this.scheduled.add(row);
    return row;
  }

  /** Into the queue, with a new token; or in line for its concurrency key while another job has it. */
  enqueue(row: JobRow, reason: TransitionReason): void {
    const hasKey = this.#takeKey(row);
    this.#leave(row);
    if (!hasKey) {
      if (row.state !== "Scheduled") {
        this.#note(row, row.state, "Enqueued", reason);
        this.#note(row, "Enqueued", "Scheduled", "held");
      }
      row.hold = "key";
      this.scheduled.add(row);
      return;
    }
    this.#note(row, row.state, "Enqueued", reason);
    row.hold = null;
    this.#mint(row);
  }

  claim(row: JobRow, workerId: WorkerId): void {
    this.#leave(row);
    this.#note(row, row.state, "Processing", "claimed");
    row.workerId = workerId;
    row.execution += 1;
    row.startedAtMs = row.recovered ? this.nowMs() : null;
    row.leaseCounter = 0;
    row.progress = 0;
    row.progressMessage = null;
    this.processing.add(row);
  }

  /** Out of Processing or the queue, to wait. A delay of 0 keeps its place. */
  postpone(
    row: JobRow,
    options: { readonly reason: TransitionReason; readonly delayMs: number; readonly hold: Hold | null },
  ): void {
    this.#leave(row);
    this.#note(row, row.state, "Scheduled", options.reason);
    row.token = null;
    // Due again at once, it stands in line for its key like the others, mostly as the first.
    row.hold = options.hold ?? (options.delayMs <= 0 && isKeyed(row) ? "key" : null);
    if (options.delayMs > 0) {
      row.runAtMs = this.nowMs() + options.delayMs;
      row.sortAtMs = row.runAtMs - row.priority * PRIORITY_MS;
    }
    this.scheduled.add(row);
    this.#releaseKey(row);
  }

  /** The token and the worker stay with the finished row, so that a repeated finish is recognized. */
  end(row: JobRow, state: FinalState, reason: TransitionReason): void {
    const owner = row.workerId;
    this.#leave(row);
    this.#note(row, row.state, state, reason);
    row.workerId = owner;
    row.hold = null;
    row.finishedAtMs = this.nowMs();
    if (state === "Failed") this.deadLetters.push({ jobId: row.id, reason, error: row.error });
    if (state === "Failed") this.outbox.write(deadLetterOf(row, reason));
    this.#releaseKey(row);
  }

  /** Called with the queue of a job that came into it without being asked for, since it got its concurrency key. */
  onAdmitted: (queue: string) => void = () => {};

  /** The row of an execution, if the worker still owns it: the fence. */
  owned(workerId: WorkerId, { jobId, token }: Ownership): JobRow | null {
    const row = this.jobs.get(jobId);
    return row !== undefined && row.state === "Processing" && row.token === token && row.workerId === workerId
      ? row
      : null;
  }

  /** A job of the schedule that is on its way. */
  runOf(schedule: string): JobRow | null {
    for (const row of this.jobs.values()) {
      if (row.schedule?.name === schedule && row.finishedAtMs === null) return row;
    }
    return null;
  }

  /** By the files or by an operator. */
  isSuspended(schedule: ScheduleRow): boolean {
    return schedule.spec.suspend || this.pauses.has(`Schedule/${schedule.name}`);
  }

  isAlive(worker: WorkerRow): boolean {
    return worker.leftAtMs === null && worker.heartbeatAtMs > this.nowMs() - ALIVE_MS;
  }

  /** False: another job has it. */
  #takeKey(row: JobRow): boolean {
    if (!isKeyed(row)) return true;
    const owner = this.keys.get(row.concurrencyKey);
    if (owner !== undefined && owner !== row.id) return false;
    this.keys.set(row.concurrencyKey, row.id);
    return true;
  }

  /** The key of a job that has left goes to the first that waits for it. */
  #releaseKey(row: JobRow): void {
    if (!isKeyed(row) || this.keys.get(row.concurrencyKey) !== row.id) return;
    this.keys.delete(row.concurrencyKey);
    let first: JobRow | null = null;
    for (const waiting of this.scheduled) {
      if (waiting.hold !== "key" || waiting.concurrencyKey !== row.concurrencyKey) continue;
      if (first === null || isBefore(waiting, first)) first = waiting;
    }
    if (first === null) return;
    this.enqueue(first, "hold released");
    this.onAdmitted(first.queue);
  }

  #leave(row: JobRow): void {
    if (row.state === "Processing") this.processing.delete(row);
    else if (row.state === "Scheduled") this.scheduled.delete(row);
    row.workerId = null;
    row.startedAtMs = null;
  }

  #mint(row: JobRow): void {
    this.#token += 1n;
    row.token = this.#token as DispatchToken;
    row.enqueuedAtMs = this.nowMs();
    this.outbox.write({ kind: "dispatch", jobId: row.id, token: row.token, queue: row.queue });
    const { usual, recovered } = this.runnable(row.queue);
    (row.recovered ? recovered : usual).add(row);
  }

  #note(row: JobRow, from: JobState | null, to: JobState, reason: TransitionReason): void {
    assertMove({ from, to });
    row.state = to;
    row.timeline.push({ from, to, reason });
  }
}

function isKeyed(row: JobRow): row is JobRow & { readonly concurrencyKey: string } {
  return (row.concurrencyKey ?? null) !== null;
}

function isBefore(left: JobRow, right: JobRow): boolean {
  return left.sortAtMs === right.sortAtMs ? left.id < right.id : left.sortAtMs < right.sortAtMs;
}
