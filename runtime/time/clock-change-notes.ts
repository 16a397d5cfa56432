import { firesBetween, nextFire, noteClockChange, previousFire } from "./next-fire.ts";
import { CLOCK_CHANGE_REACH_MS, findZoneSpan, formatLocal, formatWallTime } from "./time-zone.ts";
import type { Timing } from "./timing.ts";

/** One change of a zone's clocks. */
export interface ClockChange {
  readonly at: Date;
  /** The day it happens on, and what clocks show just before and just after: `2026-03-29`, `02:00`, `03:00`. */
  readonly day: string;
  readonly before: string;
  readonly after: string;
}

/** The clock changes of a zone after `after`, up to and with `until`; the first `limit`. */
export function listClockChanges(
  timeZone: string,
  { after, until }: { readonly after: Date; readonly until: Date },
  limit = 20,
): readonly ClockChange[] {
  const changes: ClockChange[] = [];
  for (let at = findZoneSpan(timeZone, after.getTime()).until; at <= until.getTime() && changes.length < limit; ) {
    const span = findZoneSpan(timeZone, at);
    // Spans are computed by blocks, whose edges are no changes.
    if (span.from === at && span.offset !== span.previousOffset) {
      changes.push({
        at: new Date(at),
        day: formatWallTime(at + span.previousOffset).slice(0, 10),
        before: formatWallTime(at + span.previousOffset).slice(11, 16),
        after: formatWallTime(at + span.offset).slice(11, 16),
      });
    }
    at = span.until;
  }
  return changes;
}

/**
 * What the clock changes of a stretch do to a timing, a sentence each: `2026-03-29 clock change, 02:00 → 03:00: 02:30
 * does not exist on this day: fires at the end of the gap, 03:00+02:00`. None for what no clock decides.
 */
export function noteClockChanges(
  timing: Timing,
  timeZone: string,
  stretch: { readonly after: Date; readonly until: Date },
): readonly string[] {
  if (timing.kind !== "cron") return [];
  return listClockChanges(timeZone, stretch).map(
    (change) =>
      `${change.day} clock change, ${change.before} → ${change.after}: ${describeEffect(timing, timeZone, change)}`,
  );
}

/** Fires around a change that are looked at, for a schedule that fires every second. */
const LOOKED_FIRES = 20_000;
const HOUR_MS = 3_600_000;

function describeEffect(timing: Timing, timeZone: string, { at }: ClockChange): string {
  const around = { after: new Date(at.getTime() - 2 * HOUR_MS), until: new Date(at.getTime() + 2 * HOUR_MS) };
  const noted = firesBetween(timing, around.after, around.until, LOOKED_FIRES).flatMap((fire) => {
    const note = noteClockChange(timing, fire);
    return note === null ? [] : [{ fire, note }];
  });
  const [first, ...others] = noted;
  if (first !== undefined) {
    const more =
      others.length === 0 ? "" : `, and ${others.length} more ${others.length === 1 ? "fire" : "fires"} like it`;
    return `${first.note}, ${clockText(first.fire, timeZone)}${more}`;
  }
  const last = previousFire(timing, at);
  const next = nextFire(timing, new Date(at.getTime() - 1));
  if (next === null) return "fires no more after it";
  if (last === null || at.getTime() - last.getTime() > CLOCK_CHANGE_REACH_MS) {
    return `the next fire is ${formatLocal(next, timeZone)}`;
  }
  const [lastLocal, nextLocal] = [formatLocal(last, timeZone), formatLocal(next, timeZone)];
  if (lastLocal.slice(11, 19) === nextLocal.slice(11, 19)) {
    const utc = (fire: Date) => fire.toISOString().slice(11, 16);
    return `stays at ${lastLocal.slice(11, 16)} local time, in UTC ${utc(last)} becomes ${utc(next)}`;
  }
  return `fires at ${clockText(last, timeZone)} before it and at ${clockText(next, timeZone)} after it`;
}

/** `03:00+02:00`, with seconds only where there are some. */
function clockText(fire: Date, timeZone: string): string {
  return formatLocal(fire, timeZone)
    .slice(11)
    .replace(/^(\d\d:\d\d):00(?=[+-])/, "$1");
}
