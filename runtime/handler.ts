import type { Json } from "./core/json.ts";

/**
 * What handlers import as "turno". A handler module's default export is the value of {@link defineHandler}; its
 * return value becomes the job's result and must be JSON.
 */
export interface HandlerContext {
  readonly jobId: string;
  readonly type: string;
  /** What the retry budget counts: failures so far + 1. */
  readonly attempt: number;
  /** Number of this execution of the job, from 1; grows with every claim. */
  readonly execution: number;
  /** `spec.settings` of the job type. */
  readonly settings: Readonly<Record<string, Json>>;
  /** Grows with every execution of the job; a store that compares it refuses writes of executions that lost their lease. */
  readonly fence: bigint;
  /** The same in every attempt of the job; for services that take an idempotency key. */
  readonly idempotencyKey: string;
  /** Aborts on time-out, cancel, shutdown and a lost lease. */
  readonly signal: AbortSignal;
  /** When this attempt times out. */
  readonly deadline: Date;
  /** The schedule that fired this job, or null. */
  readonly schedule: { readonly name: string; readonly firedFor: Date; readonly lateBy: number } | null;
  /** Number of the revision whose definition and code this execution runs. */
  readonly revision: number | null;
  readonly log: HandlerLog;
  /** Percent from 0 to 100 with an optional message; kept only while the execution owns its lease. */
  progress(percent: number, message?: string): Promise<void>;
  /**
   * `return ctx.snooze("10m")`: not done yet, run again after this long. No attempt is used up. Milliseconds or a
   * duration such as `30s`; from 1 ms to 366 d, anything else throws a RangeError.
   */
  snooze(duration: number | string): Snooze;
  /**
   * Enqueues a job that comes into being together with this execution's success, and not at all when it ends
   * otherwise. Rejects when it is refused: undeclared type, payload that does not fit, options, too many.
   */
  enqueue(type: string, payload?: unknown, options?: EnqueueOptions): Promise<{ readonly id: string }>;
}

/** What `ctx.snooze` gives; it has an effect only as the handler's return value. */
export interface Snooze {
  readonly turnoOutcome: "snooze";
  readonly forMs: number;
}

export interface EnqueueOptions {
  /** Instead of the job type's queue. */
  readonly queue?: string;
  /** From -100 to 100; a head start of a minute a point. */
  readonly priority?: number;
  /** When it is due; not together with `delay`. */
  readonly runAt?: Date | string;
  /** Counted from this execution's end: milliseconds or a duration such as `10m`. */
  readonly delay?: number | string;
  /** Instead of the policy's. */
  readonly maxAttempts?: number;
  /** Instead of the job type's: milliseconds or a duration. */
  readonly timeout?: number | string;
  /** Jobs with the same key never run at the same time. */
  readonly concurrencyKey?: string;
}

export interface HandlerLog {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

export type Handler<Payload = Json> = (payload: Payload, ctx: HandlerContext) => unknown;

/** Marks a function as a handler; `Payload` is the type the job's schema promises. */
export function defineHandler<Payload = Json>(handler: Handler<Payload>): Handler<Payload> {
  return handler;
}

/** A failure that no retry can mend: the job ends as Failed at once. */
export class PermanentError extends Error {
  override readonly name = "PermanentError";
  /** Recognized across bundles, where `instanceof` fails. */
  readonly turnoOutcome = "permanent";
}

/** A failure that asks for the next attempt not before a given time: milliseconds, seconds text or an HTTP date. */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";
  readonly turnoOutcome = "retry-after";
  /** Milliseconds, or the value of an HTTP `Retry-After` header. */
  readonly after: number | string;

  constructor(after: number | string, message = "the work asks to be tried later") {
    super(message);
    this.after = after;
  }
}

/** A passing failure: retried at once inside the same attempt when the policy has `immediateRetry`. */
export class TransientError extends Error {
  override readonly name = "TransientError";
  readonly turnoOutcome = "transient";
}
