import type { WorkerId } from "../../core/ids.ts";

export interface WorkerInfo {
  readonly id: WorkerId;
  /** Name for people: host name and process id. */
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly queues: readonly { readonly name: string; readonly concurrency: number }[];
}

/** How a worker fares by its own account. */
export interface WorkerCondition {
  /** The database's clock less its own; null: not measured yet. */
  readonly clockSkewMs: number | null;
  /** Handlers ended since its start because they ignored their abort. */
  readonly handlersCutOff: number;
  /** Handlers that were to be ended and go on all the same. */
  readonly handlersStuck: number;
  /** Its leases cannot be renewed at the moment. */
  readonly leasesFailing: boolean;
}

export type Duty = "scheduling" | "recovery" | "cleanup";

/** Workers announce themselves; one of them leads each duty by a term of the database. */
export interface WorkerStore {
  /** True when no other worker was alive: a cold start of the installation, counted once. */
  registerWorker(info: WorkerInfo): Promise<{ readonly coldStart: boolean }>;
  /** A worker that was forgotten while it could not be heard is there again. */
  heartbeat(beat: {
    readonly worker: WorkerInfo;
    readonly draining: boolean;
    readonly unloadableBundles: readonly string[];
    readonly condition: WorkerCondition;
  }): Promise<{ readonly databaseTime: Date }>;
  deregisterWorker(workerId: WorkerId): Promise<void>;
  /** Takes or extends the term of a duty by the database's clock. */
  holdTerm(request: { readonly duty: Duty; readonly workerId: WorkerId; readonly termMs: number }): Promise<boolean>;
  releaseTerm(request: { readonly duty: Duty; readonly workerId: WorkerId }): Promise<void>;
}

/** The leader's housekeeping; what can take long ends early at the signal, and goes on in the next round. */
export interface CleanupStore {
  /** Creates the day partitions that finishing jobs will need. */
  preparePartitions(): Promise<void>;
  /** Drops what has expired; returns the number of partitions dropped. */
  dropExpired(signal: AbortSignal): Promise<number>;
  /** Folds counter deltas into totals and minute statistics. */
  foldCounters(signal: AbortSignal): Promise<void>;
  pruneWorkers(olderThanMs: number): Promise<number>;
}
