import { firesBetween } from "./next-fire.ts";
import type { Timing } from "./timing.ts";

/** Fires of one timing in a stretch of time, as far as they were counted; milliseconds, in order. */
export interface FireSet {
  readonly fires: readonly number[];
  /** Every fire of the stretch up to and with this instant is there; the end of the stretch when `complete`. */
  readonly knownUntil: number;
  readonly complete: boolean;
}

/** Stands after `after`, up to and with `until`. */
export interface Stretch {
  readonly after: Date;
  readonly until: Date;
}

const NO_FIRES: readonly number[] = [];

/** The fires in the stretch, `limit` at most: a schedule that fires every second costs no more than that. */
export function collectFires(timing: Timing, stretch: Stretch, limit: number): FireSet {
  const found = firesBetween(timing, stretch.after, stretch.until, limit + 1).map((fire) => fire.getTime());
  const complete = found.length <= limit;
  const fires = complete ? found : found.slice(0, limit);
  return {
    fires,
    knownUntil: complete ? stretch.until.getTime() : (fires.at(-1) ?? stretch.after.getTime()),
    complete,
  };
}

/** The fires of a schedule that is suspended or not there. */
export function noFires({ until }: Stretch): FireSet {
  return { fires: NO_FIRES, knownUntil: until.getTime(), complete: true };
}

/** Whether the fires follow from the timing; an interval that counts from the end of a run has none of its own. */
export function hasForeseeableFires(timing: Timing): boolean {
  return timing.kind !== "every" || timing.from !== "finish";
}

/** `2026-03-29T03:00:00Z`, with milliseconds only where there are some. */
export function instantText(at: Date | number): string {
  return new Date(at).toISOString().replace(".000Z", "Z");
}
