import { CLOCK_CHANGE_REACH_MS, findZoneSpan, type ZoneSpan } from "./time-zone.ts";
import type { CronTiming, DstRule } from "./timing.ts";
import { compilePattern, type WallClockPattern } from "./wall-clock.ts";

/**
 * When cron expressions fire in a zone. The rule of clock changes: open times (`*` or a step in the hour or the
 * minute) follow real time, so they fire in both passes of a repeated stretch and not in a missing one; fixed times
 * fire exactly once, in a gap at its end and in a repeated stretch at the first pass. `dst` stands over it.
 *
 * Between two clock changes wall time and real time run evenly, so each such stretch is searched on the wall clock.
 */
export type CronFires = Pick<CronTiming, "expression" | "others" | "timeZone" | "seed" | "dst">;

/** One expression with what becomes of its times at a clock change. */
interface Rule {
  readonly pattern: WallClockPattern;
  readonly timeZone: string;
  readonly gap: "shift" | "skip";
  readonly fold: "first" | "second" | "both";
}

/** The first fire after the instant, or null; milliseconds. Throws TURNO_CRON_INVALID or TURNO_TIME_INVALID. */
export function nextCronFire(timing: CronFires, after: number): number | null {
  const fires = rulesOf(timing).flatMap((rule) => nextFireOf(rule, after) ?? []);
  return fires.length === 0 ? null : Math.min(...fires);
}

/** The last fire before the instant, not earlier than 1970, or null; the inverse of `nextCronFire`. */
export function previousCronFire(timing: CronFires, before: number): number | null {
  const fires = rulesOf(timing).flatMap((rule) => previousFireOf(rule, before) ?? []);
  return fires.length === 0 ? null : Math.max(...fires);
}

/** What a clock change did to a fire, as a sentence for people; null: nothing. */
export function describeClockChange(timing: CronFires, fire: number): string | null {
  const rule = rulesOf(timing).find((candidate) => nextFireOf(candidate, fire - 1) === fire);
  if (rule === undefined) return null;
  const { pattern, timeZone, fold } = rule;
  const span = findZoneSpan(timeZone, fire);
  const wall = fire + span.offset;
  if (pattern.firstAtOrAfter(wall) !== wall) {
    const missing = pattern.firstAtOrAfter(span.from + span.previousOffset);
    return missing === null ? null : `${clockTime(missing)} does not exist on this day: fires at the end of the gap`;
  }
  const verb = fold === "both" ? "this is" : "fires at";
  if (wall < span.from + span.previousOffset) return `${clockTime(wall)} occurs twice on this day: ${verb} the second`;
  if (wall < firstRepeatedWallTime(timeZone, span)) return null;
  return `${clockTime(wall)} occurs twice on this day: ${verb} the first`;
}

function rulesOf({ expression, others = [], timeZone, seed, dst }: CronFires): readonly Rule[] {
  return [expression, ...others].map((text) => ruleOf(compilePattern(text, seed), timeZone, dst));
}

function ruleOf(pattern: WallClockPattern, timeZone: string, dst: DstRule | undefined): Rule {
  const { gap = pattern.open ? "skip" : "shift", fold = pattern.open ? "both" : "first" } = dst ?? {};
  return { pattern, timeZone, gap, fold };
}

function nextFireOf(rule: Rule, after: number): number | null {
  const { pattern, timeZone } = rule;
  // The first instant that may be the answer; fires before 1970 are not looked for.
  let first = Math.max(after + 1, 0);
  for (;;) {
    const span = findZoneSpan(timeZone, first);
    if (first === span.from && firesAtGapEnd(rule, span)) return first;
    const wall = pattern.firstAtOrAfter(Math.max(first + span.offset, firstFreshWallTime(rule, span)));
    if (wall === null) return null;
    const fire = wall - span.offset;
    if (fire < span.until && wall < endOfWallTimes(rule, span)) return fire;
    // No wall time before this match is one: years without a fire are left out, all but the reach of a clock change.
    const leap = fire - CLOCK_CHANGE_REACH_MS;
    const mayLeap = span.until - first > CLOCK_CHANGE_REACH_MS && leap > span.until;
    first = mayLeap ? leap : span.until;
  }
}

function previousFireOf(rule: Rule, before: number): number | null {
  const { pattern, timeZone } = rule;
  let last = before - 1;
  while (last >= 0) {
    const span = findZoneSpan(timeZone, last);
    const wall = pattern.lastAtOrBefore(Math.min(last + span.offset, endOfWallTimes(rule, span) - 1));
    const earliest = Math.max(span.from + span.offset, firstFreshWallTime(rule, span));
    if (wall !== null && wall >= earliest) return notBefore1970(wall - span.offset);
    if (firesAtGapEnd(rule, span)) return notBefore1970(span.from);
    const leap = wall === null ? -1 : wall - span.offset + CLOCK_CHANGE_REACH_MS;
    const mayLeap = last - span.from > CLOCK_CHANGE_REACH_MS && leap < span.from;
    last = mayLeap ? leap : span.from - 1;
  }
  return null;
}

/** Whether the span begins after a gap with a time in it that is made up for. */
function firesAtGapEnd({ pattern, gap }: Rule, span: ZoneSpan): boolean {
  if (gap === "skip" || span.offset <= span.previousOffset) return false;
  const missing = pattern.firstAtOrAfter(span.from + span.previousOffset);
  return missing !== null && missing < span.from + span.offset;
}

/** Times that already passed before the clocks went back don't fire again under `first`: where the unseen ones begin. */
function firstFreshWallTime({ fold }: Rule, span: ZoneSpan): number {
  return span.from + (fold === "first" ? Math.max(span.offset, span.previousOffset) : span.offset);
}

/** Times that are still to come once more wait for that under `second`: where they begin. */
function endOfWallTimes({ fold, timeZone }: Rule, span: ZoneSpan): number {
  return fold === "second" ? firstRepeatedWallTime(timeZone, span) : Number.POSITIVE_INFINITY;
}

/** The first wall time of the span that clocks show again after it. */
function firstRepeatedWallTime(timeZone: string, span: ZoneSpan): number {
  const next = findZoneSpan(timeZone, span.until);
  return span.until + Math.min(span.offset, next.offset);
}

function notBefore1970(fire: number): number | null {
  return fire < 0 ? null : fire;
}

/** `02:30`, or `02:30:15`. */
function clockTime(wall: number): string {
  const text = new Date(wall).toISOString().slice(11, 19);
  return text.endsWith(":00") ? text.slice(0, 5) : text;
}
