import type { DeclaredObject, JobDefinition, ObjectKind, ProjectObject, ScheduleSpec } from "../../config/objects.ts";
import type { TurnoError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";

/** Where a project's files come from: one source owns the objects of an installation. */
export interface SourceIdentity {
  /** `local` for a folder. */
  readonly name: string;
  /** The folder's path or the repository's address. */
  readonly origin: string;
}

/**
 * What git says about the files, and nothing that is not certain: `commit`, author, time and message only when every
 * file of the project equals that commit; otherwise `baseCommit` names the commit the changed files stand on.
 */
export interface Provenance {
  readonly commit: string | null;
  readonly baseCommit: string | null;
  readonly author: string | null;
  readonly committedAt: Date | null;
  /** First line of the commit's message. */
  readonly message: string | null;
}

export const NO_PROVENANCE: Provenance = {
  commit: null,
  baseCommit: null,
  author: null,
  committedAt: null,
  message: null,
};

/** One settled look at a project's files: no file changed while it was taken, nor for the settle time before. */
export interface ProjectSnapshot {
  /** By path below the root: turno.yaml, what its includes match, and the schemas they refer to. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Over the files and the handlers' sources; equal content gives an equal text. */
  readonly fingerprint: string;
  /** Over the handlers' sources alone. */
  readonly handlersFingerprint: string;
  readonly provenance: Provenance;
  /** When the newest of the files was last written, by the file system. */
  readonly newestWriteAt: Date | null;
  /** What the commit confirms by its `Turno-Confirm` trailers; absent: nothing. */
  readonly confirms?: readonly string[];
}

/** A project's files, watched. Reading throws TurnoError when they are missing, unreadable or never settle. */
export interface ProjectSource {
  readonly identity: SourceIdentity;
  read(signal: AbortSignal): Promise<ProjectSnapshot>;
  /** Calls back when a read may give something new; coalesced, never while it is being called. */
  watch(onChange: () => void): Promise<ProjectWatch>;
  /** Whether the folder still holds what was read. */
  isCurrent(snapshot: ProjectSnapshot): Promise<boolean>;
  /**
   * Names files below the root, beyond the handlers' folder, that the handlers are made of. True when there are new
   * ones: what was read before did not look at them.
   */
  addInputs(paths: readonly string[]): boolean;
  /** The next read looks at the remote again, whatever its interval says; absent: every read does. */
  expire?(): void;
  /** Why what was read last may not follow what this source has in force; null: it may. Absent: it always may. */
  judgeSuccession?(inForce: RevisionSummary, signal: AbortSignal): Promise<TurnoError | null>;
}

export interface ProjectWatch {
  close(): Promise<void>;
}

/** A handler as one ES module, named by the hash of its content. */
export interface HandlerBundle {
  readonly hash: string;
  /** Path below the handlers' folder. */
  readonly handler: string;
  readonly code: string;
  /** Versions of native packages that stay out of the bundle. */
  readonly externals: Readonly<Record<string, string>>;
}

export interface RevisionSummary extends Provenance {
  readonly number: number;
  readonly source: SourceIdentity;
  readonly contentHash: string;
  readonly appliedAt: Date;
  readonly appliedBy: string;
  /** The revision that a rollback brought back; null: it came from files. */
  readonly rollbackOf: number | null;
  /** Content of the source that is held back until it changes; null: none. */
  readonly heldContent: string | null;
}

/** A revision as it is told, with what it changed. */
export interface RevisionRecord extends RevisionSummary {
  /** The changes as the plan showed them: a list of `ObjectChange`. */
  readonly changes: Json;
}

/** A revision with its changes in words, an object a line. */
export interface RevisionEntry extends RevisionSummary {
  readonly words: readonly string[];
}

/** What a rollback does, or would do. */
export interface RollbackOutcome {
  readonly words: readonly string[];
  /** Null: it was a preview. */
  readonly revision: RevisionSummary | null;
}

/** What people see and do with revisions, from the API and the commands. */
export interface RevisionDesk {
  list(page: { readonly before: number | null; readonly limit: number }): Promise<readonly RevisionEntry[]>;
  /** Null: there is no such revision. */
  find(number: number): Promise<RevisionEntry | null>;
  /** Brings a revision back; with `preview` nothing is changed. Throws TURNO_REVISION_UNKNOWN, TURNO_SOURCE_STALE. */
  rollBack(request: {
    readonly number: number;
    readonly by: string;
    readonly preview: boolean;
  }): Promise<RollbackOutcome>;
  /** The last look at each source. */
  status(): Promise<readonly SyncStatus[]>;
  /** Asks the reconcilers to look at their source now. */
  requestSync(): void;
}

/** Everything that was in force with a revision. */
export interface RevisionContent {
  readonly revision: RevisionSummary;
  readonly project: ProjectObject | null;
  /** Sorted by kind and name. */
  readonly objects: readonly DeclaredObject[];
  readonly definitions: readonly { readonly name: string; readonly hash: string; readonly definition: JobDefinition }[];
}

export interface AppliedJobType {
  readonly name: string;
  readonly definitionHash: string;
  readonly definition: JobDefinition;
  /** No longer declared; its last jobs drain. */
  readonly removed: boolean;
}

export interface AppliedSchedule {
  readonly name: string;
  readonly timingHash: string;
  /** By the files. */
  readonly suspended: boolean;
  /** An operator has paused it; that stands over every apply. */
  readonly paused?: boolean;
  readonly nextFireAt: Date | null;
}

/** What is in force. */
export interface AppliedState {
  /** The database's time. */
  readonly now: Date;
  readonly coldStarts: number;
  readonly owner: SourceIdentity | null;
  readonly inForce: RevisionSummary | null;
  readonly project: ProjectObject | null;
  /** Sorted by kind and name. */
  readonly objects: readonly DeclaredObject[];
  readonly jobTypes: readonly AppliedJobType[];
  readonly schedules: readonly AppliedSchedule[];
}

export interface ObjectAddress {
  readonly kind: ObjectKind;
  readonly name: string;
}

export interface ScheduleWrite {
  readonly name: string;
  readonly jobType: string;
  readonly spec: ScheduleSpec;
  readonly timingHash: string;
  readonly suspended: boolean;
  /** `keep` leaves the next fire untouched, whatever the scheduler made of it meanwhile. */
  readonly next: { readonly kind: "keep" } | { readonly kind: "set"; readonly at: Date | null };
  /** The cold start that `runOnStart` counts as fired for; null: as it is. */
  readonly firedColdStart: number | null;
}

/** Everything one revision changes, decided from the locked state; written in one transaction. */
export interface RevisionWrites {
  readonly source: SourceIdentity;
  readonly contentHash: string;
  readonly provenance: Provenance;
  readonly appliedBy: string;
  readonly rollbackOf: number | null;
  readonly heldContent: string | null;
  /** What changed, as the plan showed it. */
  readonly changes: Json;
  /** New objects, and new versions of those that changed or moved. */
  readonly versions: readonly ((ProjectObject | DeclaredObject) & { readonly specHash: string })[];
  readonly removed: readonly ObjectAddress[];
  readonly bundles: readonly HandlerBundle[];
  readonly definitions: readonly { readonly hash: string; readonly definition: JobDefinition }[];
  readonly jobTypes: readonly { readonly name: string; readonly definitionHash: string; readonly queue: string }[];
  readonly removedJobTypes: readonly string[];
  readonly queues: readonly {
    readonly name: string;
    readonly concurrency: number | null;
    readonly suspended: boolean;
    /** A Queue document declares it; otherwise a job type merely uses it. */
    readonly declared: boolean;
  }[];
  /** No longer declared: their limits fall away. */
  readonly removedQueues: readonly string[];
  readonly schedules: readonly ScheduleWrite[];
  /** What is in force under the old name goes on under the new one. */
  readonly renamedSchedules: readonly { readonly from: string; readonly to: string }[];
  readonly removedSchedules: readonly string[];
  /** What is removed with `onRemove: cancel`: waiting jobs of these types, and those that these schedules made. */
  readonly cancelled: RemovedNames;
}

export interface RemovedNames {
  readonly jobTypes: readonly string[];
  readonly schedules: readonly string[];
}

export interface SyncProblem {
  readonly code: string;
  readonly message: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly column: number | null;
  readonly hint: string | null;
}

/** What keeps a source's files from being in force; `Synced`: nothing. */
export type SyncState = "Synced" | "OutOfSync" | "Invalid" | "Held";

/** The last look at a source, for people who ask why an edit is not in force. */
export interface SyncStatus {
  readonly source: SourceIdentity;
  readonly checkedAt: Date;
  readonly ok: boolean;
  /** When the files were last in force as they were found. */
  readonly lastOkAt: Date | null;
  readonly revision: number | null;
  readonly problems: readonly SyncProblem[];
  /** `Stale`: nobody has reached the source for long. */
  readonly status: SyncState | "Stale";
  /** The newest commit that was seen. */
  readonly commit: string | null;
  /** When the source last answered. */
  readonly reachedAt: Date;
}

/** One look at a source, as it is recorded. */
export interface SyncRecord extends Pick<SyncStatus, "source" | "ok" | "revision" | "problems" | "commit"> {
  /** Null: the source did not answer, what was known of it stays. */
  readonly status: SyncState | null;
  readonly staleAfterMs: number;
}

/** What differs from the revision in force, and not by an apply. */
export interface Drift {
  /** Rows that somebody edited, removed or added in the database. */
  readonly edited: readonly {
    readonly kind: ObjectKind;
    readonly name: string;
    readonly what: "edited" | "missing" | "undeclared";
  }[];
  readonly pauses: readonly {
    readonly kind: "Schedule" | "Queue";
    readonly name: string;
    readonly by: string;
    readonly reason: string | null;
    readonly until: Date | null;
  }[];
}

/** The revisions of an installation. */
export interface RevisionStore {
  loadApplied(): Promise<AppliedState>;
  /**
   * One transaction under one lock for all reconcilers: reads what is in force, lets `decide` compute the writes from
   * it and writes them. `decide` returns null when there is nothing to do; what it throws rolls everything back.
   */
  applyRevision(decide: (locked: AppliedState) => RevisionWrites | null): Promise<RevisionSummary | null>;
  revisionInForce(): Promise<RevisionSummary | null>;
  /** The newest revision of a source with this content; null: these files were never applied. */
  findRevision(request: { readonly source: string; readonly contentHash: string }): Promise<RevisionSummary | null>;
  /** Newest first; only those before a number where one is given. */
  listRevisions(page: { readonly before: number | null; readonly limit: number }): Promise<readonly RevisionRecord[]>;
  /** What was changed past the files. */
  loadDrift(): Promise<Drift>;
  /** Null: there is no such revision. */
  loadRevisionContent(number: number): Promise<RevisionContent | null>;
  /** A bundle's code. */
  loadBundle(hash: string): Promise<string | null>;
  /** Jobs of these types that are not finished, each counted up to `limit`; types without any are absent. */
  countLiveJobs(types: readonly string[], limit: number): Promise<ReadonlyMap<string, number>>;
  /** Jobs that have not started, by what an apply would cancel them for: `Job/…` or `Schedule/…`; each counted up to `limit`. */
  countWaitingJobs(names: RemovedNames, limit: number): Promise<ReadonlyMap<string, number>>;
  /** Payloads of a type's jobs that wait for their start, newest first: at most `limit`, and within some megabytes. */
  loadWaitingPayloads(type: string, limit: number): Promise<readonly Json[]>;
  recordSync(record: SyncRecord): Promise<void>;
  /** Newest first. */
  loadSyncStatus(): Promise<readonly SyncStatus[]>;
}
