import { CLOCK_CHANGE_REACH_MS, findZoneSpan, type ZoneSpan } from "./time-zone.ts";
import { compilePattern, type WallClockPattern } from "./wall-clock.ts";

/**
 * When a cron expression fires in a zone. The rule of clock changes: open times (`*` or a step in the hour or the
 * minute) follow real time, so they fire in both passes of a repeated stretch and not in a missing one; fixed times
 * fire exactly once, in a gap at its end and in a repeated stretch at the first pass.
 *
 * Between two clock changes wall time and real time run evenly, so each such stretch is searched on the wall clock.
 */
export interface CronTiming {
  readonly expression: string;
  readonly timeZone: string;
}

/** The first fire after the instant, or null; milliseconds. Throws TURNO_CRON_INVALID or TURNO_TIME_INVALID. */
export function nextCronFire(timing: CronTiming, after: number): number | null {
  const pattern = compilePattern(timing.expression);
  // The first instant that may be the answer; fires before 1970 are not looked for.
  let first = Math.max(after + 1, 0);
  for (;;) {
    const span = findZoneSpan(timing.timeZone, first);
    if (first === span.from && firesAtGapEnd(pattern, span)) return first;
    const wall = pattern.firstAtOrAfter(Math.max(first + span.offset, firstFreshWallTime(pattern, span)));
    if (wall === null) return null;
    const fire = wall - span.offset;
    if (fire < span.until) return fire;
    // No wall time before this match is one: years without a fire are left out, all but the reach of a clock change.
    const leap = fire - CLOCK_CHANGE_REACH_MS;
    const mayLeap = span.until - first > CLOCK_CHANGE_REACH_MS && leap > span.until;
    first = mayLeap ? leap : span.until;
  }
}

/** The last fire before the instant, not earlier than 1970, or null; the inverse of `nextCronFire`. */
export function previousCronFire(timing: CronTiming, before: number): number | null {
  const pattern = compilePattern(timing.expression);
  let last = before - 1;
  while (last >= 0) {
    const span = findZoneSpan(timing.timeZone, last);
    const wall = pattern.lastAtOrBefore(last + span.offset);
    const earliest = Math.max(span.from + span.offset, firstFreshWallTime(pattern, span));
    if (wall !== null && wall >= earliest) return notBefore1970(wall - span.offset);
    if (firesAtGapEnd(pattern, span)) return notBefore1970(span.from);
    const leap = wall === null ? -1 : wall - span.offset + CLOCK_CHANGE_REACH_MS;
    const mayLeap = last - span.from > CLOCK_CHANGE_REACH_MS && leap < span.from;
    last = mayLeap ? leap : span.from - 1;
  }
  return null;
}

/** What a clock change did to a fire, as a sentence for people; null: nothing. */
export function describeClockChange(timing: CronTiming, fire: number): string | null {
  const pattern = compilePattern(timing.expression);
  const span = findZoneSpan(timing.timeZone, fire);
  const wall = fire + span.offset;
  if (pattern.firstAtOrAfter(wall) !== wall) {
    const missing = pattern.firstAtOrAfter(span.from + span.previousOffset);
    return missing === null ? null : `${clockTime(missing)} does not exist on this day: fires at the end of the gap`;
  }
  if (wall < span.from + span.previousOffset) return `${clockTime(wall)} occurs twice on this day: this is the second`;
  const next = findZoneSpan(timing.timeZone, span.until);
  if (wall < span.until + next.offset) return null;
  return `${clockTime(wall)} occurs twice on this day: ${pattern.open ? "this is" : "fires at"} the first`;
}

/** Whether the span begins after a gap with a fixed time in it. */
function firesAtGapEnd(pattern: WallClockPattern, span: ZoneSpan): boolean {
  if (pattern.open || span.offset <= span.previousOffset) return false;
  const missing = pattern.firstAtOrAfter(span.from + span.previousOffset);
  return missing !== null && missing < span.from + span.offset;
}

/** Fixed times that already passed before the clocks went back don't fire again: where the unseen ones begin. */
function firstFreshWallTime(pattern: WallClockPattern, span: ZoneSpan): number {
  return span.from + (pattern.open ? span.offset : Math.max(span.offset, span.previousOffset));
}

function notBefore1970(fire: number): number | null {
  return fire < 0 ? null : fire;
}

/** `02:30`, or `02:30:15`. */
function clockTime(wall: number): string {
  const text = new Date(wall).toISOString().slice(11, 19);
  return text.endsWith(":00") ? text.slice(0, 5) : text;
}
