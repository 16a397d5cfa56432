import type { ScheduleSpec } from "../../config/objects.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { Hold, JobState } from "../states.ts";
import type { AloneReason, AttemptOutcome } from "./jobs.ts";

/** File, line and revision that a thing was declared by; null where nothing recorded it. */
export interface Declaration {
  readonly revision: number;
  readonly file: string;
  readonly line: number;
  readonly commit: string | null;
  readonly author: string | null;
}

/** A job as the API shows it; times come from the database's clock. */
export interface JobView {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  /** A claimed job that has not started is shown as Enqueued. */
  readonly state: JobState;
  readonly hold: Hold | null;
  readonly priority: number;
  readonly payload: Json;
  readonly result: Json;
  /** Why the handler's return value could not be kept; the job succeeded all the same. */
  readonly resultError: string | null;
  readonly error: string | null;
  readonly progress: number;
  readonly progressMessage: string | null;
  readonly attempt: number;
  /** Null: the type is not declared any more and the job has no limit of its own. */
  readonly maxAttempts: number | null;
  readonly timeoutMs: number | null;
  readonly execution: number;
  readonly lost: number;
  readonly generation: number;
  readonly concurrencyKey: string | null;
  readonly runAt: Date;
  readonly createdAt: Date;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly cancelRequested: boolean;
  /** Name of the worker that runs it or ran it last. */
  readonly worker: string | null;
  readonly schedule: string | null;
  readonly firedFor: Date | null;
  readonly lateByMs: number | null;
  readonly source: Declaration | null;
}

export interface AttemptView {
  readonly execution: number;
  readonly worker: string;
  readonly outcome: AttemptOutcome;
  readonly startedAt: Date | null;
  readonly finishedAt: Date;
  readonly durationMs: number | null;
  readonly error: string | null;
  readonly stack: string | null;
  readonly bundle: string | null;
  readonly revision: number | null;
}

export interface TimelineEntry {
  readonly at: Date;
  readonly from: JobState | null;
  readonly to: JobState;
  readonly reason: string | null;
}

/** Another job, as a link shows it. */
export interface JobLink {
  readonly id: string;
  readonly type: string;
  readonly state: JobState;
}

/** One job with what happened to it. Attempts newest first, the timeline oldest first. */
export interface JobDetail extends JobView {
  readonly now: Date;
  readonly attempts: readonly AttemptView[];
  readonly timeline: readonly TimelineEntry[];
  /** The job whose handler enqueued it; its state is null when it was cleaned up. */
  readonly parent: { readonly id: string; readonly type: string | null; readonly state: JobState | null } | null;
  /** What its handler enqueued, the first hundred, and whether there are more. */
  readonly children: readonly JobLink[];
  readonly hasMoreChildren: boolean;
  /** Its next execution runs in a process of its own, for this reason. */
  readonly runsAlone: AloneReason | null;
  /** The fencing token of its last dispatch. */
  readonly fence: string | null;
  /** Subject of the commit that made the declaration. */
  readonly commitMessage: string | null;
  readonly committedAt: Date | null;
}

export interface JobFilter {
  readonly states: readonly JobState[];
  readonly type: string | null;
  readonly queue: string | null;
  readonly schedule: string | null;
  readonly revision: number | null;
  /** Literal text of the type, or the first eight or more digits of an id. */
  readonly search: string | null;
  /** Jobs older than this id. */
  readonly before: string | null;
  readonly limit: number;
  /** False: payload and result of every item are null. */
  readonly withData: boolean;
}

/** Newest first. A page may be short, even empty, and still have a `next`: one page looks at a bounded number of rows. */
export interface JobPage {
  readonly now: Date;
  readonly items: readonly JobView[];
  readonly next: string | null;
}

export interface MinuteView {
  readonly minute: Date;
  readonly succeeded: number;
  readonly failed: number;
}

/** Figures of the whole installation; from counters, never by counting jobs. */
export interface Statistics {
  readonly now: Date;
  readonly queued: number;
  readonly running: number;
  readonly scheduled: number;
  readonly workers: number;
  readonly slots: number;
  readonly deadLetters: number;
  readonly lastDay: {
    readonly succeeded: number;
    readonly failed: number;
    readonly cancelled: number;
    readonly executions: number;
    readonly meanMs: number | null;
  };
  /** The last sixty minutes, oldest first, every minute present. */
  readonly minutes: readonly MinuteView[];
}

export interface RunningView {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly startedAt: Date;
  readonly progress: number;
  readonly progressMessage: string | null;
  readonly timeoutMs: number | null;
  readonly cancelRequested: boolean;
}

export interface WorkerView {
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  /** `silent`: no heartbeat for over 30 s. */
  readonly status: "live" | "draining" | "silent";
  readonly queues: readonly { readonly name: string; readonly concurrency: number }[];
  readonly registeredAt: Date;
  readonly heartbeatAt: Date;
  readonly duties: readonly string[];
  readonly unloadableBundles: readonly string[];
  /** The database's clock less its own; null: not measured yet. */
  readonly clockSkewMs: number | null;
  /** Handlers ended since its start because they ignored their abort. */
  readonly handlersCutOff: number;
  /** Handlers that were to be ended and go on all the same. */
  readonly handlersStuck: number;
  /** Its leases cannot be renewed at the moment. */
  readonly leasesFailing: boolean;
  readonly running: readonly RunningView[];
}

export interface JobTypeView {
  readonly name: string;
  readonly description: string | null;
  readonly handler: string;
  readonly queue: string;
  readonly policy: string | null;
  readonly isolation: string;
  readonly timeoutMs: number;
  readonly maxAttempts: number;
  readonly payloadSchema: JsonObject | boolean | null;
  readonly bundle: string | null;
  /** Not declared any more; its last jobs drain. */
  readonly removed: boolean;
  readonly source: Declaration | null;
}

/** An operator's pause over the files. */
export interface PauseView {
  readonly by: string;
  readonly reason: string | null;
  readonly pausedAt: string;
  /** Null: until somebody resumes it. */
  readonly until: string | null;
}

export interface QueueView {
  readonly name: string;
  /** Jobs of it that may run at once on the whole fleet; null: no limit. */
  readonly concurrency: number | null;
  /** By the files or by a pause. */
  readonly suspended: boolean;
  readonly pause?: PauseView | null;
  readonly scheduled: number;
  readonly queued: number;
  readonly running: number;
  /** Slots that live workers offer it. */
  readonly slots: number;
  readonly lastDay: { readonly executions: number; readonly failures: number; readonly meanMs: number | null };
  readonly source: Declaration | null;
}

export interface FireView {
  readonly at: Date;
  /** `backfill`: an operator had a past instant made up for. */
  readonly outcome: "fired" | "missed" | "superseded" | "overlapped" | "calendar" | "manual" | "on-start" | "backfill";
  readonly jobId: string | null;
  /** State of the fire's job; null when it has been cleaned up or there was none. */
  readonly state: JobState | null;
  readonly lateByMs: number;
}

export interface ScheduleView {
  readonly name: string;
  readonly description: string | null;
  readonly jobType: string;
  readonly queue: string | null;
  readonly spec: ScheduleSpec;
  readonly timingHash: string;
  /** By the files or by a pause. */
  readonly suspended: boolean;
  readonly pause?: PauseView | null;
  readonly nextFireAt: Date | null;
  readonly lastFireAt: Date | null;
  readonly lastJobId: string | null;
  /** `every … from: finish` whose run is on its way. */
  readonly awaitsFinish: boolean;
  readonly source: Declaration | null;
}

/** The revision in force; null before the first apply. */
export interface RevisionView {
  readonly number: number;
  readonly commit: string | null;
  readonly author: string | null;
  readonly message: string | null;
  readonly appliedAt: Date;
}

/** The last look at the project's files, while nothing was applied after it. */
export interface SyncView {
  /** The files are in force as they were found. */
  readonly ok: boolean;
  readonly checkedAt: Date;
  /** Nobody has looked for two minutes. */
  readonly silent: boolean;
  /** When the files were last in force as they were found; null: never. */
  readonly lastOkAt: Date | null;
  /** What keeps them from being in force, the first of `count`; null when they are. */
  readonly problem: {
    readonly code: string;
    readonly message: string;
    readonly file: string | null;
    readonly line: number | null;
    readonly count: number;
  } | null;
}

/** What a person should look at, worst first. */
export type Concern =
  /** Processes that run on settings of before the last change of `spec.runtime`. */
  | { readonly kind: "restart-needed"; readonly workers: readonly string[]; readonly since: Date }
  | { readonly kind: "no-worker"; readonly queue: string; readonly queued: number }
  | { readonly kind: "worker-silent"; readonly worker: string; readonly since: Date }
  /** What a worker says of itself; `clockSkewMs` only when it is 5 s or more. */
  | {
      readonly kind: "worker-ailing";
      readonly worker: string;
      readonly leasesFailing: boolean;
      readonly handlersStuck: number;
      readonly clockSkewMs: number | null;
    }
  | { readonly kind: "unloadable"; readonly worker: string; readonly bundles: number }
  | { readonly kind: "near-timeout"; readonly jobId: string; readonly type: string; readonly deadline: Date }
  /** `count` stops at 1000. */
  | { readonly kind: "held"; readonly type: string; readonly hold: Hold; readonly count: number; readonly since: Date }
  /** `count` looks at the newest 1000 dead letters. */
  | { readonly kind: "dead-letters"; readonly type: string; readonly count: number; readonly last: Date }
  | { readonly kind: "missed"; readonly schedule: string; readonly count: number; readonly last: Date }
  | { readonly kind: "queue-suspended"; readonly queue: string; readonly queued: number }
  | { readonly kind: "never-fires"; readonly schedule: string };

/** Fingerprints that change when what they stand for changes; cheap enough to read every second. */
export interface Pulse {
  readonly jobs: string;
  readonly workers: string;
  readonly sync: string;
}
export type PulseTopic = keyof Pulse;

/** Reading for the API and the panel. Every call has a time limit of its own and counts no large table. */
export interface PanelQueries {
  loadPulse(): Promise<Pulse>;
  loadStatistics(): Promise<Statistics>;
  listJobs(filter: JobFilter): Promise<JobPage>;
  loadJob(id: string): Promise<JobDetail | null>;
  /** Workers that have not left, each with what it runs; oldest first. */
  listWorkers(): Promise<{ readonly now: Date; readonly items: readonly WorkerView[] }>;
  listJobTypes(): Promise<readonly JobTypeView[]>;
  listQueues(): Promise<{ readonly now: Date; readonly items: readonly QueueView[] }>;
  /** By name, after `after`; at most `limit`. */
  listSchedules(page: { readonly after: string | null; readonly limit: number }): Promise<{
    readonly now: Date;
    readonly items: readonly ScheduleView[];
    readonly next: string | null;
  }>;
  /** The newest fires of each schedule, newest first. */
  listFires(request: {
    readonly schedules: readonly string[];
    readonly each: number;
  }): Promise<ReadonlyMap<string, readonly FireView[]>>;
  listConcerns(): Promise<readonly Concern[]>;
  loadRevision(): Promise<RevisionView | null>;
  /** Null: nobody watches the files, or something was applied since. */
  loadSync(): Promise<SyncView | null>;
}

/** The fires of a timing after an instant, up to and with `until`, at most `limit`; pure. */
export type ForecastFires = (
  spec: ScheduleSpec,
  range: { readonly after: Date; readonly until: Date; readonly limit: number },
) => readonly Date[];

export interface HealthCheck {
  /** `degraded`: without it work goes on. */
  readonly status: "up" | "degraded" | "down";
  readonly detail: string | null;
}

/** The parts that work depends on; `database` is always there. */
export type HealthReport = Readonly<Record<string, HealthCheck>> & { readonly database: HealthCheck };
