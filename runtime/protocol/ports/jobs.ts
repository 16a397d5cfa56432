import type { JobDefinition } from "../../config/objects.ts";
import type { DispatchToken, JobId, WorkerId } from "../../core/ids.ts";
import type { Json } from "../../core/json.ts";
import type { FinalState, JobState } from "../states.ts";

/** A job that is to exist. */
export interface NewJob {
  readonly id: JobId;
  readonly type: string;
  /** Null: the job type's queue. */
  readonly queue: string | null;
  readonly payload: Json;
  /** -100 to 100; a head start of 60 s a point. */
  readonly priority: number;
  /** When it is due by the database's clock; `null`: now. */
  readonly due: { readonly at: Date } | { readonly afterMs: number } | null;
  /** Null: the policy's. */
  readonly maxAttempts: number | null;
  readonly timeoutMs: number | null;
  /** Jobs with the same key never have two owners; absent or null: none. */
  readonly concurrencyKey?: string | null;
  /** At most one job counts for each type and key; absent or null: every one does. */
  readonly unique?: UniqueWish | null;
  /** The job whose handler enqueued it; absent or null: none. */
  readonly parentId?: JobId | null;
}

/** A job with the same type and key that still counts is the answer in its place. */
export interface UniqueWish {
  readonly key: string;
  /** How long this job counts after its creation; null: as long as `until` says. */
  readonly forMs: number | null;
  /** Until a worker takes it for the first time, or until it has ended; null: whatever becomes of it. */
  readonly until: "started" | "finished" | null;
}

export interface CreatedJob {
  readonly id: JobId;
  readonly state: JobState;
  readonly queue: string;
  /** Nothing was created: it is the job that was there, with the state it has. */
  readonly duplicate?: true;
}

/** A request that is carried out once, however often it comes (Idempotency-Key). */
export interface OnceKey {
  /** Whose key it is; empty: nobody's in particular. */
  readonly scope: string;
  readonly key: string;
  /** Of the request; another request with the same key is refused. */
  readonly requestHash: string;
  readonly retainMs: number;
}

export type InsertOutcome = { readonly created: readonly CreatedJob[] } | { readonly unknownTypes: readonly string[] };

/** `replayed`: what was answered the first time. `other-request`: the key was used for another. `in-progress`: the first one is not over. */
export type InsertOnceOutcome =
  | InsertOutcome
  | { readonly replayed: readonly CreatedJob[] }
  | { readonly refused: "other-request" | "in-progress" };

/** Creating jobs, and what operators do to them. Each method is one transaction. */
export interface JobStore {
  /** All or none; types must be declared: `unknownTypes` names those that are not, and nothing was inserted. */
  insertJobs(jobs: readonly NewJob[]): Promise<InsertOutcome>;
  /** As insertJobs, and the key with it in one transaction; may be repeated after an unknown outcome. Parallel calls wait for one another. */
  insertJobsOnce(jobs: readonly NewJob[], once: OnceKey): Promise<InsertOnceOutcome>;
  /** The definitions in force, by job type; undeclared types are absent. */
  loadJobTypes(types: readonly string[]): Promise<ReadonlyMap<string, JobDefinition>>;
  /** Not running: Cancelled at once. Running: a request that the owner sees with its next renewal or doorbell. */
  cancelJob(id: JobId): Promise<CancelOutcome>;
  /** Failed, Cancelled or Succeeded → Enqueued (on to Scheduled while another has its concurrency key) with a new generation, fresh budgets and a new token. */
  requeueJob(id: JobId): Promise<RequeueOutcome>;
  /** Removes a finished job with its attempts and timeline. */
  deleteJob(id: JobId): Promise<{ readonly kind: "deleted" } | NotInState>;
}

export type NotInState = { readonly kind: "not-found" } | { readonly kind: "refused"; readonly state: JobState };
/** `held`: another job has its concurrency key, and it waits for that. */
export type RequeueOutcome = { readonly kind: "requeued"; readonly held?: true } | NotInState;
export type CancelOutcome =
  | { readonly kind: "cancelled" }
  | { readonly kind: "requested" }
  | { readonly kind: "not-found" }
  | { readonly kind: "finished"; readonly state: FinalState };

/** What a claim gives back: the row's facts, and the hash of the definition in force. */
export interface ClaimedJob {
  readonly id: JobId;
  readonly token: DispatchToken;
  readonly type: string;
  readonly queue: string;
  readonly payload: Json;
  /** Key of {@link ExecutionStore.loadDefinitions}; null when the type was never declared. */
  readonly definitionHash: string | null;
  readonly revision: number | null;
  readonly failures: number;
  readonly execution: number;
  readonly lost: number;
  readonly lostUnstarted: number;
  readonly returns: number;
  readonly maxAttempts: number | null;
  readonly timeoutMs: number | null;
  /** What it has while it runs; absent or null: none. Its finish says so too. */
  readonly concurrencyKey?: string | null;
  readonly schedule: { readonly name: string; readonly firedFor: Date; readonly lateByMs: number } | null;
  /** It was recovered from a lost worker: its start is already written, and it must be started at once. */
  readonly recovered: boolean;
}

/** Position in a queue's order where the last claim ended; opaque. */
export type ClaimCursor = string;

export interface ClaimRequest {
  readonly workerId: WorkerId;
  readonly queue: string;
  readonly limit: number;
  /** Null: from the start of the queue. */
  readonly after: ClaimCursor | null;
  /** Types this worker cannot load. */
  readonly exceptTypes: readonly string[];
}

/** An owned execution, as every later write presents it. */
export interface Ownership {
  readonly jobId: JobId;
  readonly token: DispatchToken;
}

/** The final word of one execution, decided in memory by `settle`; the store lets it land or fences it. */
export interface Finish extends Ownership {
  readonly outcome: AttemptOutcome;
  readonly next: FinalState | "Scheduled";
  /** Timeline reason. */
  readonly reason: string;
  /** Which budget pays. */
  readonly charge: "failure" | "lost" | "return" | null;
  /** Wait before the next attempt; 0 keeps the job's place in its queue. Only with next = Scheduled. */
  readonly delayMs: number;
  /** Hold instead of a time. Only with next = Scheduled. */
  readonly hold: "no-handler" | null;
  /** JSON text, already storable. */
  readonly result: string | null;
  readonly resultError: string | null;
  readonly error: string | null;
  readonly stack: string | null;
  /** How long the handler ran; null: it never started, and no attempt is recorded. */
  readonly ranMs: number | null;
  /** How long the finished job is kept, by final state. */
  readonly retainMs: { readonly succeeded: number; readonly failed: number; readonly cancelled: number };
  readonly bundleHash: string | null;
  readonly revision: number | null;
  /** The job's: the next one that waits for it gets it with this finish. */
  readonly concurrencyKey?: string | null;
  /** Jobs that come into being with this finish, and only when it lands; where a type is no longer declared, held (`no-handler`). */
  readonly children?: readonly NewJob[];
}

export const ATTEMPT_OUTCOMES = [
  "succeeded",
  "failed",
  "timed-out",
  "cancelled",
  "returned",
  "lost",
  "snoozed",
] as const;
export type AttemptOutcome = (typeof ATTEMPT_OUTCOMES)[number];

/** Why a job runs in a process of its own: lost with a worker after its start, too often before it, or given back too often. */
export type AloneReason = "lost" | "lost-unstarted" | "returned";

/** `fenced`: the job belongs to another execution or nobody; nothing was kept. `cancelled`: a cancel request came first. */
export type FinishOutcome = "landed" | "cancelled" | "fenced";

export interface ClaimedBatch {
  readonly jobs: readonly ClaimedJob[];
  readonly cursor: ClaimCursor | null;
  /** The queue has a limit for the whole fleet, or is suspended or paused; absent: it has none. */
  readonly limited?: true;
}

/** The writes of an execution. Each call is one atomic statement; the adapter may coalesce concurrent calls. */
export interface ExecutionStore {
  /** Enqueued → Processing, in queue order. An empty list means nothing is claimable after the cursor. Limit 0 only asks. */
  claimJobs(request: ClaimRequest): Promise<ClaimedBatch>;
  /** As claimJobs, for jobs recovered from lost workers: one at a time, with its start written. */
  claimRecovered(request: Omit<ClaimRequest, "after" | "limit">): Promise<ClaimedJob | null>;
  /** After a claim of unknown outcome: what this worker owns and does not know of. */
  findOwned(request: {
    readonly workerId: WorkerId;
    readonly known: readonly Ownership[];
  }): Promise<readonly Ownership[]>;
  loadDefinitions(hashes: readonly string[]): Promise<ReadonlyMap<string, JobDefinition>>;
  loadBundle(hash: string): Promise<string | null>;
  /** Finishes one execution; rejects only when the database is away or refuses the data. */
  finishJob(workerId: WorkerId, finish: Finish): Promise<FinishOutcome>;
  /** Claimed and never started: back to Scheduled and due, nothing charged, no attempt recorded. */
  returnClaims(workerId: WorkerId, claims: readonly Ownership[]): Promise<void>;
  /** Writes the start of executions that run for more than an instant. */
  markStarted(workerId: WorkerId, starts: readonly (Ownership & { readonly runningMs: number })[]): Promise<void>;
  /** Shows progress; lands only for the owner. */
  reportProgress(
    workerId: WorkerId,
    reports: readonly (Ownership & { readonly percent: number; readonly message: string | null })[],
  ): Promise<void>;
}

/** What broker transports ask of the database before a job may run. */
export interface DeliveryStore {
  /**
   * Enqueued → Processing for the job and token of one message; null: the message is stale or a duplicate. `limited`: the
   * queue has a limit or is suspended, and its jobs are claimed in their turn (claimJobs), not as their messages come.
   */
  claimDelivery(workerId: WorkerId, message: Ownership): Promise<ClaimedJob | "limited" | null>;
  /** Enqueued → Scheduled by the claim's own predicate, so it never touches a job that somebody owns. False: nothing was there. */
  deferDelivery(message: Ownership, delayMs: number): Promise<boolean>;
}
