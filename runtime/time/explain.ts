import { humanDuration } from "../core/duration.ts";
import { findCalendarSkip } from "./calendar.ts";
import { parseCron } from "./cron.ts";
import { matchFields } from "./cron-match.ts";
import { nextFire, nextNominalFire, noteClockChange, parseInstant, previousFire, waitsForFinish } from "./next-fire.ts";
import { findZoneSpan, formatLocal, formatWallTime } from "./time-zone.ts";
import type { Timing } from "./timing.ts";

/** What a timing says about one instant. */
export interface InstantExplanation {
  /** It is one of the timing's fires; null: that follows from the ends of runs. */
  readonly isFire: boolean | null;
  /** Why, a sentence each. */
  readonly reasons: readonly string[];
  /** The fires around it. */
  readonly previous: Date | null;
  readonly next: Date | null;
}

/** Why a timing fires at an instant, or does not: the field that does not match, the clock change, the calendar. */
export function explainInstant(timing: Timing, timeZone: string, at: Date): InstantExplanation {
  const around = {
    previous: previousFire(timing, at),
    next: waitsForFinish(timing) ? null : nextFire(timing, at),
  };
  if (timing.kind === "every" && timing.from === "finish") {
    const wait = humanDuration(timing.intervalMs);
    return { isFire: null, reasons: [`it fires ${wait} after the end of each run`], ...around };
  }
  const isFire = isSame(nextFire(timing, before(at)), at);
  const isNominal = isSame(nextNominalFire(timing, before(at)), at);
  if (isNominal && !isFire) return { isFire, reasons: [describeCalendar(timing, at)], ...around };
  return {
    isFire,
    reasons: isFire ? describeFire(timing, timeZone, at) : describeMiss(timing, timeZone, at),
    ...around,
  };
}

/**
 * The instants that a wall time names in a zone: one as a rule, two in a repeated hour, none in a gap. Text such as
 * `2026-03-29T02:30`, or null when it is none.
 */
export function readWallTime(text: string, timeZone: string): readonly Date[] | null {
  const match = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?$/.exec(text);
  if (match === null) return null;
  const wall = parseInstant(`${match[1]}T${match[2]}${match[3] ?? ":00"}Z`).getTime();
  const day = 86_400_000;
  const offsets = new Set([wall - day, wall, wall + day].map((at) => findZoneSpan(timeZone, at).offset));
  return [...offsets]
    .map((offset) => wall - offset)
    .filter((at) => at + findZoneSpan(timeZone, at).offset === wall)
    .sort((left, right) => left - right)
    .map((at) => new Date(at));
}

function describeFire(timing: Timing, timeZone: string, at: Date): readonly string[] {
  if (timing.kind !== "cron") return [`it is an instant of ${timingText(timing)}`];
  const note = noteClockChange(timing, at);
  return [note ?? `${wallText(timeZone, at)} matches "${expressionsOf(timing).join('", "')}" in ${timeZone}`];
}

function describeMiss(timing: Timing, timeZone: string, at: Date): readonly string[] {
  if (timing.kind !== "cron") return [`it is no instant of ${timingText(timing)}`];
  const wall = at.getTime() + findZoneSpan(timing.timeZone, at.getTime()).offset;
  return expressionsOf(timing).map((expression) => {
    const parsed = parseCron(expression, timing.seed);
    if (!parsed.ok || at.getTime() % 1_000 !== 0) return `"${expression}" names whole seconds`;
    const missed = matchFields(parsed.cron, wall).filter(({ matches }) => !matches);
    if (missed.length > 0) {
      return `"${expression}" does not match: ${missed.map(({ field, found }) => `the ${field} is ${found}`).join(", ")}`;
    }
    return describeSecondPass(timing, timeZone, at);
  });
}

/** Every field matches and it is none of the fires: the wall time occurs twice, and the other one fires. */
function describeSecondPass(timing: Timing, timeZone: string, at: Date): string {
  const instants =
    readWallTime(formatWallTime(at.getTime() + findZoneSpan(timeZone, at.getTime()).offset), timeZone) ?? [];
  const other = instants.find((instant) => !isSame(instant, at) && isSame(nextFire(timing, before(instant)), instant));
  const twice = `${wallText(timeZone, at)} occurs twice on this day`;
  return other === undefined
    ? `${twice}, and this one does not count`
    : `${twice}: it fires at ${formatLocal(other, timeZone)}`;
}

function describeCalendar(timing: Timing, at: Date): string {
  const skip = timing.calendars === undefined ? null : findCalendarSkip(timing.calendars, at.getTime());
  if (skip === null) return "it is left out";
  if (skip.calendar === null) return "no calendar that the schedule includes has this day";
  return `Calendar/${skip.calendar} leaves it out${skip.reason === null ? "" : `: ${skip.reason}`}`;
}

function expressionsOf(timing: Timing): readonly string[] {
  return timing.kind === "cron" ? [timing.expression, ...(timing.others ?? [])] : [];
}

function timingText(timing: Timing): string {
  if (timing.kind === "every") return `every ${humanDuration(timing.intervalMs)}, counted from 1970-01-01T00:00:00Z`;
  return timing.kind === "at" ? `at ${timing.at}` : timing.expression;
}

/** `02:30:00 on 2026-03-29`. */
function wallText(timeZone: string, at: Date): string {
  const local = formatLocal(at, timeZone);
  return `${local.slice(11, 19)} on ${local.slice(0, 10)}`;
}

function before(at: Date): Date {
  return new Date(at.getTime() - 1);
}

function isSame(left: Date | null, right: Date): boolean {
  return left !== null && left.getTime() === right.getTime();
}
