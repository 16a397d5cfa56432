import type { Json, JsonObject } from "../core/json.ts";
import type { CalendarDays } from "../time/calendar.ts";
import type { MisfirePolicy } from "../time/due.ts";
import type { Timing } from "../time/timing.ts";

export type { Timing } from "../time/timing.ts";

/**
 * Declared documents after validation and normalization: defaults filled in, durations in milliseconds, references
 * checked, frozen. This is what plans compare, what the database keeps and what workers run by.
 */
export type ObjectKind = "Project" | "Queue" | "Policy" | "Job" | "Schedule" | "Calendar";

export interface ConfigObject<Kind extends ObjectKind = ObjectKind, Spec = ObjectSpec> {
  readonly kind: Kind;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly description: string | null;
  readonly spec: Spec;
  /** Path below the project's root, with forward slashes. */
  readonly file: string;
  /** First line of the document's `kind`, counted from 1. */
  readonly line: number;
}

export type QueueObject = ConfigObject<"Queue", QueueSpec>;
export type PolicyObject = ConfigObject<"Policy", PolicySpec>;
export type JobObject = ConfigObject<"Job", JobSpec>;
export type ScheduleObject = ConfigObject<"Schedule", ScheduleSpec>;
export type ProjectObject = ConfigObject<"Project", ProjectSpec>;
export type CalendarObject = ConfigObject<"Calendar", CalendarSpec>;
export type DeclaredObject = QueueObject | PolicyObject | JobObject | ScheduleObject | CalendarObject;
export type ObjectSpec = ProjectSpec | QueueSpec | PolicySpec | JobSpec | ScheduleSpec | CalendarSpec;

export interface QueueSpec {
  /** Jobs of this queue that may run at once on the whole fleet; null: no limit. */
  readonly concurrency: number | null;
  readonly suspend: boolean;
}

export interface PolicySpec {
  readonly immediateRetry: { readonly attempts: number; readonly initialMs: number };
  readonly retry: {
    readonly maxAttempts: number;
    readonly backoff: BackoffSpec;
  };
  readonly timeoutMs: number;
  /** Losses of the worker after a written start that end the job as Failed. */
  readonly maxLost: number;
  /** Losses without a known start after which the job runs alone in its own process. */
  readonly maxLostUnstarted: number;
  /** Returns by shutdown after which the job runs alone in its own process. */
  readonly maxReturns: number;
}

export interface BackoffSpec {
  readonly type: "exponential" | "fixed";
  readonly initialMs: number;
  readonly maxMs: number;
  /** Share of the wait that is random, 0 to 1. */
  readonly jitter: number;
}

export type Isolation = "inline" | "thread" | "process";

export interface RetentionSpec {
  readonly succeededMs: number;
  readonly cancelledMs: number;
  readonly failedMs: number;
}

export interface JobSpec {
  /** Path below the project's handlers folder, or `builtin/command`. */
  readonly handler: string;
  readonly queue: string;
  /** Name of a Policy; `standard` is built in. */
  readonly policy: string;
  /** Overrides the policy's. */
  readonly timeoutMs: number | null;
  readonly settings: JsonObject;
  readonly isolation: Isolation;
  /** JSON Schema 2020-12 of the payload with every reference resolved; null: any payload. */
  readonly payloadSchema: JsonObject | boolean | null;
  /** Text with expressions over the payload; absent: none. */
  readonly concurrencyKey?: string;
  readonly unique?: UniqueSpec;
  readonly retention: RetentionSpec;
  /** Its waiting jobs are cancelled when it is removed; absent: they drain. */
  readonly onRemove?: "cancel";
}

/** A duplicate is answered with the job that is there: at most one counts for each key of the job type. */
export interface UniqueSpec {
  /** Text with expressions over the payload. */
  readonly key: string;
  /** After its creation; null: as long as `until` says. */
  readonly forMs: number | null;
  /** What ends it earlier; null: nothing. */
  readonly until: "started" | "finished" | null;
}

export interface ScheduleSpec {
  readonly job: string;
  readonly timing: Timing;
  /** The zone in force, the schedule's own or the project's; used for display of every kind of timing. */
  readonly timeZone: string;
  readonly payload: Json;
  /** The job type's, evaluated for this payload; absent: none. */
  readonly concurrencyKey?: string;
  readonly concurrencyPolicy: "Forbid" | "Allow" | "Queue" | "Replace";
  readonly misfirePolicy: MisfirePolicy;
  /** How late a missed instant may still run; absent: `latest` until the next one, `all` without end. */
  readonly startingDeadlineMs?: number;
  /** Missed instants that `all` runs at most; absent: 50. */
  readonly maxCatchupRuns?: number;
  readonly sla?: SlaSpec;
  /** Names it had; absent: none. */
  readonly previousNames?: readonly string[];
  /** `Protect`: it is not removed. Absent: it may be. */
  readonly deletionPolicy?: "Protect";
  /** Its waiting jobs are cancelled when it is removed; absent: they drain. */
  readonly onRemove?: "cancel";
  readonly runOnStart: boolean;
  readonly suspend: boolean;
}

export interface CalendarSpec extends Omit<CalendarDays, "name"> {
  /** Path of the imported file, as written; its days are among the others. */
  readonly ics: string | null;
  /** The last day it is kept up for, `2026-12-31`. */
  readonly validUntil: string | null;
  /** Schedules with all of these labels exclude it; null: only those that name it use it. */
  readonly appliesTo: { readonly labels: Readonly<Record<string, string>> } | null;
}

/** What is expected of a schedule's runs, and the job type that tells people when it did not come. */
export interface SlaSpec {
  /** `08:00`, in the schedule's zone: a run that was due since the day before has succeeded by then. */
  readonly finishBy: string | null;
  /** The last success is never longer ago. */
  readonly maxAgeMs: number | null;
  readonly notify: string | null;
}

export interface ProjectSpec {
  readonly include: readonly string[];
  readonly timeZone: string | null;
  /** Folder of handlers, relative to the project's root. */
  readonly handlers: string;
  /** Where the files in force come from; absent: the folder. */
  readonly source?: SourceSpec;
  readonly sync?: SyncSpec;
  readonly runtime: RuntimeSettings;
}

export interface SourceSpec {
  readonly git: GitSourceSpec;
  readonly nonFastForward: "allow" | "hold";
}

export interface GitSourceSpec {
  /** Without credentials. */
  readonly url: string;
  /** A branch, or the full name of a ref. */
  readonly ref: string;
  /** Folder of the repository; null: its top. */
  readonly path: string | null;
  readonly intervalMs: number;
  /** Where credentials lie: `env:NAME` or `file:/path`. */
  readonly auth: {
    readonly tokenFrom: string | null;
    readonly sshKeyFrom: string | null;
    readonly knownHostsFrom: string | null;
  };
  /** Where the secret of webhooks lies; absent: none are taken. */
  readonly webhookSecretFrom?: string;
  /** File with the signers whose commits come into force; null: everybody's do. */
  readonly signers: string | null;
}

export interface SyncSpec {
  readonly guard: {
    /** Null: any number. */
    readonly maxDeletes: number | null;
    /** Null: all. */
    readonly maxFireLossPercent: number | null;
  };
  readonly staleAfterMs: number;
}

export type Transport = "postgres" | "rabbitmq" | "servicebus";

/** What tells workers that there is work; the part of another transport than the chosen one is not used. */
export interface BrokerSettings {
  readonly transport: Transport;
  readonly prefix: string;
  readonly rabbitmq: {
    readonly url: string | null;
    readonly vhost: string | null;
    /** Texts of certificates, not their places. */
    readonly tls: {
      readonly ca: string | null;
      readonly cert: string | null;
      readonly key: string | null;
      readonly serverName: string | null;
    };
  };
  readonly servicebus: { readonly connectionString: string | null };
}

export interface LockSettings {
  readonly driver: "none" | "redlock";
  readonly redlock: { readonly urls: readonly string[]; readonly prefix: string; readonly expiryMs: number };
}

/** `spec.runtime`: read at start only; every leaf can be overridden by an environment variable. */
export interface RuntimeSettings {
  readonly database: { readonly url: string | null; readonly poolSize: number };
  readonly broker: BrokerSettings;
  readonly locks: LockSettings;
  readonly samples: boolean;
  readonly worker: {
    readonly queues: readonly { readonly name: string; readonly concurrency: number }[];
    readonly leaseDurationMs: number;
    readonly leaseRenewalMs: number;
    readonly heartbeatMs: number;
    readonly maxClockSkewMs: number;
    readonly shutdownTimeoutMs: number;
  };
  readonly scheduler: { readonly intervalMs: number; readonly batchSize: number };
  readonly recovery: { readonly intervalMs: number };
  readonly retention: RetentionSpec & { readonly workersMs: number };
  readonly api: {
    readonly port: number;
    readonly host: string;
    readonly keys: string | null;
    readonly allowedOrigins: readonly string[];
  };
}

/** Everything the files declare: the project's own settings and the objects, sorted by kind and name. */
export interface DesiredState {
  readonly project: ProjectObject;
  /** Files that the includes match; none of them may mean that the folder is not what it should be. */
  readonly includedFiles: number;
  readonly objects: readonly DeclaredObject[];
  /** SHA-256 over the objects, their positions and the handler bundles; equal input gives an equal hash. */
  readonly contentHash: string;
}

/** A job type as workers run it: the job with its policy resolved. Kept in the database by content hash. */
export interface JobDefinition {
  readonly type: string;
  readonly handler: string;
  readonly bundleHash: string | null;
  readonly queue: string;
  readonly timeoutMs: number;
  readonly isolation: Isolation;
  readonly settings: JsonObject;
  readonly payloadSchema: JsonObject | boolean | null;
  readonly concurrencyKey?: string;
  readonly unique?: UniqueSpec;
  readonly retention: RetentionSpec;
  readonly policy: PolicySpec;
}
