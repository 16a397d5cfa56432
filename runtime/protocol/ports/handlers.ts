import type { JobDefinition } from "../../config/objects.ts";
import type { ClaimedJob, NewJob } from "./jobs.ts";

/** Why a running handler is asked to stop. */
export type AbortReason = "time-out" | "cancelled" | "shutdown" | "lease-lost" | "lease-doubtful";

export interface HandlerError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
  /** PermanentError: no retry. */
  readonly permanent: boolean;
  /** RetryAfter: not before this many milliseconds; null otherwise. */
  readonly retryAfterMs: number | null;
}

/** How one run of a handler ended. */
export type HandlerOutcome =
  | {
      readonly kind: "returned";
      readonly result: string | null;
      readonly resultError: string | null;
      /** What it enqueued, to be inserted with the final write; absent: nothing. */
      readonly children?: readonly NewJob[];
    }
  | { readonly kind: "threw"; readonly error: HandlerError }
  /** It returned `ctx.snooze(…)`: not done yet, and nobody's fault. */
  | { readonly kind: "snoozed"; readonly forMs: number }
  /** Ended by `end()` after it ignored its abort. */
  | { readonly kind: "cut-off" }
  /** Its thread was ended because of another job in it, or none of its code had run yet: nobody is to be charged. */
  | { readonly kind: "neighbour-ended" }
  /** Its thread or process died under it. */
  | { readonly kind: "crashed"; readonly detail: string }
  /** The module could not be loaded here. */
  | { readonly kind: "unloadable"; readonly detail: string };

export interface RunRequest {
  readonly job: ClaimedJob;
  readonly definition: JobDefinition;
  readonly timeoutMs: number;
  /** In its own process whatever the definition says (suspected of killing its worker). */
  readonly alone: boolean;
  /** As in `HandlerRun.keepUntil`, known at the start. */
  readonly keepUntilMs: number;
  readonly onProgress: (percent: number, message: string | null) => void;
}

/** A handler that runs now. `outcome` never rejects. */
export interface HandlerRun {
  readonly outcome: Promise<HandlerOutcome>;
  /** Aborts the handler's signal; it may finish in its own way. */
  abort(reason: AbortReason): void;
  /** Ends it the hard way: terminates its thread (neighbours end too) or kills its process group. */
  end(): void;
  /**
   * A handler that can go on without this process (a stopped one stops its threads too) is gone by itself at this
   * monotonic instant, unless a later one is told before it; its outcome is `cut-off` then.
   */
  keepUntil?(monotonicMs: number): void;
}

/** Runs handlers: inline, in threads or in processes; loads bundles by hash through the store. */
export interface HandlerHost {
  run(request: RunRequest): HandlerRun;
  /** Bundles that cannot be loaded here, by the last try. */
  unloadableBundles(): readonly string[];
  /** They are tried again, without a job; one that loads leaves the list. */
  retryUnloadable(): void;
  /** Ends everything that still runs. */
  close(): Promise<void>;
}
