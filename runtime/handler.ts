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
