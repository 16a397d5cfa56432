import type { JobId, WorkerId } from "../../core/ids.ts";
import type { Ids, Random } from "../../protocol/ports/surroundings.ts";

/** The same numbers for the same seed (mulberry32). */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return {
    next() {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    },
  };
}

/** Ids that count up: `…-000000000001`; shaped as UUIDv7. */
export function countingIds(prefix = 0): Ids {
  let jobs = 0;
  let workers = 0;
  const uuid = (kind: string, count: number): string =>
    `${prefix.toString(16).padStart(8, "0")}-${kind}-7000-8000-${count.toString(16).padStart(12, "0")}`;
  return {
    jobId: () => uuid("0000", ++jobs) as JobId,
    workerId: () => uuid("ffff", ++workers) as WorkerId,
  };
}
