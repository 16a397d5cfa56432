import { hashNumber } from "./hashed-field.ts";
import type { Jitter } from "./timing.ts";

/**
 * How long after its instant a fire's job is due, in milliseconds from 0 to the maximum. `random` is uniform in [0, 1)
 * and counts only for `random`; under `stable` the schedule's name alone decides.
 */
export function jitterDelayMs(
  jitter: Jitter | undefined,
  by: { readonly name: string; readonly random: number },
): number {
  if (jitter === undefined) return 0;
  const share = jitter.mode === "stable" ? hashNumber(`${by.name}\njitter`) / 2 ** 32 : by.random;
  return Math.floor(share * (jitter.maxMs + 1));
}
