import { MAX_DURATION_MS, parseDuration } from "../../core/duration.ts";
import { describeError } from "../../core/errors.ts";
import { MAX_STACK_BYTES, storableText } from "../../core/storable.ts";
import type { HandlerError } from "../../protocol/ports/handlers.ts";

/** Causes of causes that are followed; a cyclic chain ends earlier. */
const MAX_CAUSES = 5;

/** Node's and undici's codes of a connection that failed or broke, where asking again at once may help. */
const TRANSIENT_CODES = new Set([
  "ECONNRESET",
  "ECONNREFUSED",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
  "UND_ERR_SOCKET",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** Anything thrown → storable facts about it; never throws, whatever the value's own accessors do. */
export function toHandlerError(thrown: unknown): HandlerError {
  const outcome = readMember(thrown, "turnoOutcome");
  return {
    name: storableText(nameOf(thrown), 200),
    message: storableText(messageOf(thrown)),
    stack: stackOf(thrown),
    permanent: outcome === "permanent",
    retryAfterMs: outcome === "retry-after" ? parseRetryAfter(readMember(thrown, "after"), Date.now()) : null,
  };
}

/**
 * Milliseconds as a number, or a header's text: whole seconds or an HTTP date (RFC 9110, 10.2.3); durations such as
 * `2m` too. What is not a time in the future gives null, so that the policy decides. At most 400 days.
 */
export function parseRetryAfter(value: unknown, nowMs: number): number | null {
  const ms = retryAfterMs(value, nowMs);
  return Number.isFinite(ms) && ms > 0 ? Math.min(Math.ceil(ms), MAX_DURATION_MS) : null;
}

/** Whether the error, or one of its causes, says that the same call may work a moment later. */
export function isTransient(thrown: unknown): boolean {
  let current = thrown;
  for (let depth = 0; depth <= MAX_CAUSES; depth++) {
    const outcome = readMember(current, "turnoOutcome");
    if (outcome !== undefined) return outcome === "transient";
    const code = readMember(current, "code");
    if (typeof code === "string" && TRANSIENT_CODES.has(code)) return true;
    current = readMember(current, "cause");
    if (current === undefined) return false;
  }
  return false;
}

function retryAfterMs(value: unknown, nowMs: number): number {
  if (typeof value === "number") return value;
  if (typeof value !== "string") return Number.NaN;
  const text = value.trim();
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  if (/^\d+(ms|s|m|h|d)$/.test(text)) {
    try {
      return parseDuration(text);
    } catch {
      return MAX_DURATION_MS;
    }
  }
  // Date.parse reads almost anything ("soon 1" is the year 2001); an HTTP date begins with a day's name.
  if (!/^(mon|tue|wed|thu|fri|sat|sun)[a-z]*,? /i.test(text)) return Number.NaN;
  // The oldest of the three forms (asctime) has no zone; it is GMT all the same, and not this machine's.
  return Date.parse(/\d$/.test(text) ? `${text} GMT` : text) - nowMs;
}

function nameOf(thrown: unknown): string {
  const name = readMember(thrown, "name");
  return typeof name === "string" && name !== "" ? name : "Error";
}

function messageOf(thrown: unknown): string {
  if (thrown === undefined || thrown === null) return `the handler threw ${thrown}`;
  const message = readMember(thrown, "message");
  if (typeof message === "string" && message !== "") return message;
  if (typeof thrown !== "object") return describeError(thrown);
  const text = describeError(thrown);
  return text === "[object Object]" ? `the handler threw an object: ${preview(thrown)}` : text;
}

function preview(thrown: object): string {
  try {
    return (JSON.stringify(thrown) ?? "").slice(0, 1000);
  } catch {
    return "(not readable)";
  }
}

function stackOf(thrown: unknown): string | null {
  const parts: string[] = [];
  const seen = new Set<unknown>();
  let current = thrown;
  while (current !== undefined && current !== null && parts.length <= MAX_CAUSES && !seen.has(current)) {
    seen.add(current);
    const stack = readMember(current, "stack");
    const text = typeof stack === "string" ? stack : parts.length === 0 ? null : describeError(current);
    if (text === null) return null;
    parts.push(parts.length === 0 ? text : `caused by: ${text}`);
    current = readMember(current, "cause");
  }
  return parts.length === 0 ? null : storableText(parts.join("\n"), MAX_STACK_BYTES);
}

/** A member of anything, undefined when there is none or when reading it throws. */
function readMember(value: unknown, member: string): unknown {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return undefined;
  try {
    return (value as Record<string, unknown>)[member];
  } catch {
    return undefined;
  }
}
