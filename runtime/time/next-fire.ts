import { assert, unreachable } from "../core/assert.ts";
import { TurnoError } from "../core/errors.ts";
import { type CalendarSkip, findCalendarSkip, nextAllowed, previousAllowed } from "./calendar.ts";
import { describeClockChange, nextCronFire, previousCronFire } from "./cron-fires.ts";
import type { Timing } from "./timing.ts";

/** RFC 3339 with a zone; the seconds may have a fraction. */
const INSTANT = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/;

/** Candidates that calendars may refuse one after another before the schedule is taken for one that never fires. */
const MOST_REFUSED = 5_000;
/** Instants that are looked at for those that calendars left out. */
const MOST_LOOKED_AT = 20_000;

/**
 * The first fire strictly after `after`; null when there is none until the year 9999. For an interval counted from
 * the finish, `after` is the end of the run. Throws TURNO_CRON_INVALID or TURNO_TIME_INVALID.
 */
export function nextFire(timing: Timing, after: Date): Date | null {
  const { calendars } = timing;
  let from = after;
  for (let refused = 0; refused <= MOST_REFUSED; refused++) {
    const fire = nextNominalFire(timing, from);
    if (fire === null || calendars === undefined || findCalendarSkip(calendars, fire.getTime()) === null) return fire;
    const allowed = nextAllowed(calendars, fire.getTime());
    if (allowed === null || timing.kind === "at") return null;
    // Nothing holds an interval from the finish to a grid: it goes on as soon as the calendars let it.
    if (waitsForFinish(timing)) return new Date(allowed);
    from = new Date(Math.max(fire.getTime(), allowed - 1));
  }
  return null;
}

/**
 * The last fire strictly before `before`, not earlier than 1970; null when there is none, and for an interval that
 * counts from the finish, whose fires the timing alone does not tell.
 */
export function previousFire(timing: Timing, before: Date): Date | null {
  const { calendars } = timing;
  let until = before;
  for (let refused = 0; refused <= MOST_REFUSED; refused++) {
    const fire = previousNominalFire(timing, until);
    if (fire === null || calendars === undefined || findCalendarSkip(calendars, fire.getTime()) === null) return fire;
    const allowed = previousAllowed(calendars, fire.getTime());
    if (allowed === null) return null;
    until = new Date(Math.min(fire.getTime(), allowed + 1));
  }
  return null;
}

/** As `nextFire`, calendars left out. */
export function nextNominalFire(timing: Timing, after: Date): Date | null {
  const instant = readInstant(after);
  switch (timing.kind) {
    case "cron":
      return toDate(nextCronFire(timing, instant));
    case "every": {
      const interval = readInterval(timing.intervalMs);
      return new Date(timing.from === "finish" ? instant + interval : (Math.floor(instant / interval) + 1) * interval);
    }
    case "at": {
      const at = parseInstant(timing.at);
      return at.getTime() > instant ? at : null;
    }
    default:
      return unreachable(timing);
  }
}

/** As `previousFire`, calendars left out. */
export function previousNominalFire(timing: Timing, before: Date): Date | null {
  const instant = readInstant(before);
  switch (timing.kind) {
    case "cron":
      return toDate(previousCronFire(timing, instant));
    case "every": {
      if (timing.from === "finish") return null;
      const interval = readInterval(timing.intervalMs);
      const fire = (Math.ceil(instant / interval) - 1) * interval;
      return fire < 0 ? null : new Date(fire);
    }
    case "at": {
      const at = parseInstant(timing.at);
      return at.getTime() < instant ? at : null;
    }
    default:
      return unreachable(timing);
  }
}

/** The fires after `from` and up to `to`, the end included, at most `limit`; none for intervals from the finish. */
export function firesBetween(timing: Timing, from: Date, to: Date, limit: number): readonly Date[] {
  if (waitsForFinish(timing)) return [];
  const fires: Date[] = [];
  let last = from;
  while (fires.length < limit) {
    const fire = nextFire(timing, last);
    if (fire === null || fire > to) break;
    fires.push(fire);
    last = fire;
  }
  return fires;
}

/** An instant at which the schedule would fire without its calendars. */
export interface SkippedByCalendar extends CalendarSkip {
  readonly at: Date;
}

/**
 * The instants after `from` and up to `to` that calendars keep the schedule from, the newest `limit`, newest first.
 * Looks at so many instants at most, however long the time is.
 */
export function calendarSkipsBetween(
  timing: Timing,
  range: { readonly from: Date; readonly to: Date; readonly limit: number },
): readonly SkippedByCalendar[] {
  const { calendars } = timing;
  const skips: SkippedByCalendar[] = [];
  if (calendars === undefined) return skips;
  let fire = previousNominalFire(timing, new Date(range.to.getTime() + 1));
  for (let looked = 0; looked < MOST_LOOKED_AT; looked++) {
    if (fire === null || fire <= range.from || skips.length >= range.limit) break;
    const skip = findCalendarSkip(calendars, fire.getTime());
    if (skip !== null) skips.push({ at: fire, ...skip });
    fire = previousNominalFire(timing, fire);
  }
  return skips;
}

/** Whether the timing counts from the end of its previous run. */
export function waitsForFinish(timing: Timing): boolean {
  return timing.kind === "every" && timing.from === "finish";
}

/** What a clock change did to a fire of the timing, as a sentence for people; null: nothing. */
export function noteClockChange(timing: Timing, fire: Date): string | null {
  return timing.kind === "cron" ? describeClockChange(timing, readInstant(fire)) : null;
}

/** Reads an RFC 3339 instant with a zone, such as `2026-03-29T03:00:00Z`. Throws TURNO_TIME_INVALID. */
export function parseInstant(text: string): Date {
  const instant = new Date(INSTANT.test(text) ? text : Number.NaN);
  if (Number.isNaN(instant.getTime()) || !isDayOfMonth(text)) {
    throw new TurnoError(
      "TURNO_TIME_INVALID",
      `expected an instant such as 2026-03-29T03:00:00Z or with an offset, +02:00, found "${text.slice(0, 100)}"`,
    );
  }
  return instant;
}

/** `Date` takes 30 February for 2 March. */
function isDayOfMonth(text: string): boolean {
  const [year = 0, month = 0, day = 0] = text.slice(0, 10).split("-").map(Number);
  return day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}

function readInstant(date: Date): number {
  const instant = date.getTime();
  assert(!Number.isNaN(instant), "expected a valid date, found an invalid one");
  return instant;
}

function readInterval(intervalMs: number): number {
  assert(
    Number.isSafeInteger(intervalMs) && intervalMs >= 1,
    `expected an interval of whole milliseconds, found ${intervalMs}`,
  );
  return intervalMs;
}

function toDate(instant: number | null): Date | null {
  return instant === null ? null : new Date(instant);
}
