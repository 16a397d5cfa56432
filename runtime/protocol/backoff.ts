import type { BackoffSpec } from "../config/objects.ts";
import type { Random } from "./ports/surroundings.ts";

/** 2^52 times any initial wait is beyond every cap, and still a number that can be computed with. */
const MAX_DOUBLINGS = 52;

/**
 * Milliseconds to wait after the n-th failure (from 1): a whole number from 0 to the policy's maximum, whatever the
 * attempt. Jitter only shortens, so the cap holds; with jitter 1 this is "full jitter" (AWS Architecture Blog, 2015).
 */
export function backoffMs(spec: BackoffSpec, failure: number, random: Random): number {
  const doublings = spec.type === "fixed" ? 0 : Math.min(Math.max(failure - 1, 0), MAX_DOUBLINGS);
  const waitMs = Math.min(spec.maxMs, spec.initialMs * 2 ** doublings);
  const share = Math.min(Math.max(spec.jitter, 0), 1);
  return Math.max(0, Math.round(waitMs * (1 - share * random.next())));
}

/** What a handler asked for, kept within the policy's maximum; null when it is no wait at all (negative, not a number). */
export function requestedWaitMs(spec: BackoffSpec, retryAfterMs: number | null): number | null {
  if (retryAfterMs === null || Number.isNaN(retryAfterMs) || retryAfterMs < 0) return null;
  return Math.min(Math.round(retryAfterMs), spec.maxMs);
}
