import type { JobId, WorkerId } from "../../core/ids.ts";
import type { AloneReason } from "./jobs.ts";

/** Time as a process may use it: monotonic, for its own deadlines. Wall time that decides is the database's. */
export interface Clock {
  /** Monotonic milliseconds from an arbitrary origin. */
  monotonicMs(): number;
  /** Resolves after `ms`, or at once with the signal's abort. Waits over 2^31-1 ms are cut into parts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export interface Ids {
  /** UUIDv7. */
  jobId(): JobId;
  workerId(): WorkerId;
}

export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
}

/** What happened, for logs and counters; a closed union, observed by nobody's control flow. */
export type EngineEvent =
  | { readonly kind: "job-started"; readonly jobId: JobId; readonly type: string; readonly execution: number }
  /** It is suspected of killing its worker or of never ending, and runs in a process of its own. */
  | { readonly kind: "job-alone"; readonly jobId: JobId; readonly type: string; readonly reason: AloneReason }
  | {
      readonly kind: "job-finished";
      readonly jobId: JobId;
      readonly type: string;
      readonly outcome: string;
      readonly ranMs: number;
      readonly error: string | null;
    }
  /** A result that came too late: the job had another owner; nothing of it was kept. */
  | { readonly kind: "fenced"; readonly jobId: JobId; readonly type: string; readonly outcome: string }
  | { readonly kind: "lease-lost"; readonly jobId: JobId; readonly type: string }
  | { readonly kind: "lease-doubtful"; readonly jobId: JobId; readonly type: string; readonly sinceMs: number }
  | { readonly kind: "handler-stuck"; readonly jobId: JobId; readonly type: string; readonly reason: string }
  /** It was to be ended a while ago and still runs: an inline handler, or a thread in a system call. */
  | { readonly kind: "handler-runs-on"; readonly jobId: JobId; readonly type: string; readonly sinceMs: number }
  /** Renewals get no answer, or an error; once, until one succeeds. */
  | { readonly kind: "leases-failing"; readonly held: number; readonly message: string }
  | { readonly kind: "leases-renewed"; readonly held: number }
  | { readonly kind: "clock-skewed" | "clock-agrees"; readonly skewMs: number; readonly limitMs: number }
  | { readonly kind: "worker-lost"; readonly jobId: JobId; readonly workerId: WorkerId; readonly next: string }
  | {
      readonly kind: "schedule-fired";
      readonly schedule: string;
      readonly fires: number;
      readonly overlapped: number;
      readonly missed: number;
    }
  /** A run was expected and did not come. `notifiedBy`: the job that tells people; null: none is declared. */
  | {
      readonly kind: "sla-missed";
      readonly schedule: string;
      readonly expectation: "finish-by" | "max-age";
      readonly dueAt: Date;
      readonly notifiedBy: JobId | null;
    }
  | { readonly kind: "schedule-broken"; readonly schedule: string; readonly message: string }
  /** This process's settings name another transport than the installation has; it claims from the database meanwhile. */
  | { readonly kind: "transport-differs"; readonly configured: string; readonly recorded: string }
  | { readonly kind: "transport-agrees"; readonly transport: string }
  /** Messages of the outbox, and how many of them the broker has confirmed. */
  | { readonly kind: "relayed"; readonly taken: number; readonly removed: number }
  /** The broker has no queue for them; they are tried again with growing waits. */
  | { readonly kind: "unroutable"; readonly queue: string; readonly messages: number; readonly hint: string }
  /** Not confirmed; once, until all are. */
  | { readonly kind: "publishing-fails"; readonly messages: number }
  | { readonly kind: "publishing-again" }
  /** The broker had lost their messages. */
  | { readonly kind: "redispatched"; readonly queue: string; readonly jobs: number }
  | { readonly kind: "outbox-behind"; readonly messages: number; readonly oldestMs: number }
  | { readonly kind: "outbox-caught-up"; readonly messages: number }
  | { readonly kind: "duty-taken" | "duty-lost"; readonly duty: string }
  | { readonly kind: "database-away" | "database-back"; readonly loop: string; readonly message: string }
  /** A loop's cycle failed for another reason than the database being away; the loop goes on. */
  | { readonly kind: "loop-failed"; readonly loop: string; readonly message: string };

export interface Observer {
  observe(event: EngineEvent): void;
}
