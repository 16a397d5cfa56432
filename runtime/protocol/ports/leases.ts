import type { DispatchToken, JobId, WorkerId } from "../../core/ids.ts";
import type { Ownership } from "./jobs.ts";

/** What one look shows of a running job; unchanged over a whole lease means its owner makes no progress. */
export interface LeaseObservation extends Ownership {
  readonly leaseCounter: number;
}

export interface Renewal {
  /** Still owned; the ones with a cancel request named. */
  readonly renewed: readonly (Ownership & { readonly cancelRequested: boolean })[];
  /** Owned by somebody else or nobody now. */
  readonly lost: readonly Ownership[];
  /** Locked by another statement at this moment; ask again. */
  readonly skipped: readonly Ownership[];
}

export interface LostJob {
  readonly jobId: JobId;
  readonly token: DispatchToken;
  readonly workerId: WorkerId;
  readonly next: "Enqueued" | "Failed" | "Cancelled";
}

/** Leases: renewed by explicit pairs, expired only by observed non-progress. */
export interface LeaseStore {
  renewLeases(
    workerId: WorkerId,
    pairs: readonly (Ownership & { readonly runningMs: number | null })[],
  ): Promise<Renewal>;
  /** Every job in Processing, on any worker. */
  observeLeases(): Promise<readonly LeaseObservation[]>;
  /** Worker lost: back to Enqueued with a new token, or Failed when the budget is spent, or Cancelled when asked for. Repeats the observation as predicate. */
  recoverJobs(suspects: readonly LeaseObservation[]): Promise<readonly LostJob[]>;
}
