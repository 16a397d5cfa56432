import { assert, unreachable } from "../core/assert.ts";
import { TurnoError } from "../core/errors.ts";
import { describeClockChange, nextCronFire, previousCronFire } from "./cron-fires.ts";
import type { Timing } from "./timing.ts";

/** RFC 3339 with a zone; the seconds may have a fraction. */
const INSTANT = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/;

/**
 * The first fire strictly after `after`; null when there is none until the year 9999. For an interval counted from
 * the finish, `after` is the end of the run. Throws TURNO_CRON_INVALID or TURNO_TIME_INVALID.
 */
export function nextFire(timing: Timing, after: Date): Date | null {
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

/**
 * The last fire strictly before `before`, not earlier than 1970; null when there is none, and for an interval that
 * counts from the finish, whose fires the timing alone does not tell.
 */
export function previousFire(timing: Timing, before: Date): Date | null {
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
  if (timing.kind === "every" && timing.from === "finish") return [];
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
