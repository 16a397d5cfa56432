import { MAX_DURATION_MS, parseDuration } from "../../core/duration.ts";
import { describeError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import type { EnqueueOptions } from "../../handler.ts";
import type { JobRequest } from "../../protocol/ports/intake.ts";

/** Jobs that one execution may enqueue. */
export const MAX_CHILDREN = 1000;
/** Bytes of payloads that one execution may enqueue, together. */
export const MAX_CHILD_BYTES = 8 * 1024 * 1024;
const MAX_SNOOZE_MS = 366 * 86_400_000;

const OPTIONS: readonly (keyof EnqueueOptions)[] = [
  "queue",
  "priority",
  "runAt",
  "delay",
  "maxAttempts",
  "timeout",
  "concurrencyKey",
];

/** A request as it travels from the realm to its host. */
export type EnqueueRequest = Omit<JobRequest, "payload" | "due"> & {
  /** JSON text. */
  readonly payload: string;
  readonly due: { readonly atMs: number } | { readonly afterMs: number } | null;
};

/** What a handler asked to enqueue, in shape; throws a TypeError or RangeError that names what is wrong. */
export function readEnqueue(type: unknown, payload: unknown, options: EnqueueOptions): EnqueueRequest {
  if (typeof type !== "string") throw new TypeError(`expected the name of a job type, found ${show(type)}`);
  const unknown = Object.keys(options).find((name) => !(OPTIONS as readonly string[]).includes(name));
  if (unknown !== undefined) throw new TypeError(`unknown option "${unknown}"; expected ${OPTIONS.join(", ")}`);
  const timeoutMs = options.timeout === undefined ? null : readDuration("timeout", options.timeout, MAX_DURATION_MS);
  return {
    type,
    payload: writePayload(payload),
    queue: readText("queue", options.queue),
    priority: readNumber("priority", options.priority) ?? 0,
    due: readDue(options),
    maxAttempts: readNumber("maxAttempts", options.maxAttempts),
    timeoutMs,
    concurrencyKey: readText("concurrencyKey", options.concurrencyKey),
  };
}

/** The request as the intake takes it. */
export function toJobRequest(request: EnqueueRequest): JobRequest {
  const { payload, due, ...rest } = request;
  return {
    ...rest,
    payload: JSON.parse(payload) as Json,
    due: due !== null && "atMs" in due ? { at: new Date(due.atMs) } : due,
  };
}

/** Milliseconds of a snooze; throws a RangeError. */
export function readSnooze(duration: unknown): number {
  return readDuration("snooze", duration, MAX_SNOOZE_MS);
}

function readDuration(name: string, value: unknown, maxMs: number): number {
  const ms = typeof value === "number" ? Math.ceil(value) : typeof value === "string" ? tryParse(value) : Number.NaN;
  if (ms >= 1 && ms <= maxMs) return ms;
  const most = `${maxMs / 86_400_000}d`;
  throw new RangeError(
    `expected ${name} as milliseconds or a duration such as "30s" or "10m", from 1 ms to ${most}, found ${show(value)}`,
  );
}

function tryParse(text: string): number {
  try {
    return parseDuration(text);
  } catch {
    return Number.NaN;
  }
}

function readDue({ runAt, delay }: EnqueueOptions): EnqueueRequest["due"] {
  if (runAt !== undefined && delay !== undefined) throw new TypeError("expected runAt or delay, found both");
  if (delay !== undefined) return delay === 0 ? null : { afterMs: readDuration("delay", delay, MAX_DURATION_MS) };
  if (runAt === undefined) return null;
  const atMs = runAt instanceof Date ? runAt.getTime() : readInstant(runAt);
  if (!Number.isFinite(atMs) || atMs > MAX_INSTANT_MS || atMs < 0) {
    throw new RangeError(
      `expected runAt as a Date or an instant with its offset such as 2026-10-01T18:20:00Z, found ${show(runAt)}`,
    );
  }
  return { atMs };
}

/** The end of the year 9999. */
const MAX_INSTANT_MS = 253_402_300_799_999;
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/;

function readInstant(text: unknown): number {
  return typeof text === "string" && INSTANT.test(text) ? Date.parse(text) : Number.NaN;
}

function readText(name: string, value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" && value !== "") return value;
  throw new TypeError(`expected ${name} as a text, found ${show(value)}`);
}

function readNumber(name: string, value: unknown): number | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "number") return value;
  throw new TypeError(`expected ${name} as a number, found ${show(value)}`);
}

function writePayload(payload: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(payload === undefined ? {} : payload);
  } catch (error) {
    throw new TypeError(`the payload is not JSON: ${describeError(error)}`);
  }
  if (text === undefined) throw new TypeError(`the payload is not JSON: found a ${typeof payload}`);
  return text;
}

function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 100));
  return typeof value === "object" && value !== null ? "an object" : String(value).slice(0, 100);
}
