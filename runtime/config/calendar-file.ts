import ICAL from "ical.js";
import { describeError } from "../core/errors.ts";
import type { CalendarRange } from "../time/calendar.ts";
import { findFirstInstant, formatWallTime, isTimeZone } from "../time/time-zone.ts";

/** Days and stretches that one calendar may hold, what is imported included. */
export const MAX_CALENDAR_ENTRIES = 5_000;
/** Occurrences of all events that are looked at: a rule that gives none for years ends here. */
const MOST_OCCURRENCES = 20_000;
const DAY_MS = 86_400_000;

/** What a calendar file names. Days without a time are dates; everything else is a range. */
export interface ImportedDays {
  readonly dates: readonly string[];
  readonly ranges: readonly CalendarRange[];
  /** What keeps the file from being used, as sentences. */
  readonly problems: readonly string[];
}

interface Collected {
  readonly dates: Set<string>;
  readonly ranges: CalendarRange[];
  occurrences: number;
}

/**
 * The events of an iCalendar text (RFC 5545), with their recurrences written out: RRULE, RDATE, EXDATE and changed
 * single occurrences. `validUntil`, `2026-12-31`, is where recurrences without an end are cut; without it they are a
 * problem, since what a calendar names must not depend on the day on which it is read.
 */
export function readCalendarFile(text: string, validUntil: string | null): ImportedDays {
  const collected: Collected = { dates: new Set(), ranges: [], occurrences: 0 };
  const problems: string[] = [];
  let events: readonly ICAL.Event[];
  try {
    events = parseEvents(text);
  } catch (error) {
    return { dates: [], ranges: [], problems: [`it is no calendar in the iCalendar format: ${describeError(error)}`] };
  }
  for (const event of events) {
    try {
      const problem = collectEvent(event, { validUntil, collected });
      if (problem !== null) problems.push(`the event ${describeEvent(event)} ${problem}`);
    } catch (error) {
      problems.push(`the event ${describeEvent(event)} cannot be read: ${describeError(error)}`);
    }
    if (collected.dates.size + collected.ranges.length > MAX_CALENDAR_ENTRIES) {
      problems.push(`it names more than ${MAX_CALENDAR_ENTRIES} days; say validUntil, or leave events out`);
      break;
    }
  }
  return { dates: [...collected.dates].sort(), ranges: collected.ranges, problems: problems.slice(0, 20) };
}

function parseEvents(text: string): readonly ICAL.Event[] {
  const parsed: unknown = ICAL.parse(text);
  // One calendar, or several after another.
  const isOne = Array.isArray(parsed) && typeof parsed[0] === "string";
  const calendars = (isOne ? [parsed] : (parsed as unknown[])).map((jcal) => new ICAL.Component(jcal as unknown[]));
  if (calendars.length === 0 || calendars.some(({ name }) => name !== "vcalendar"))
    throw new Error("expected BEGIN:VCALENDAR");
  // Changed occurrences belong to the event that they change.
  return calendars
    .flatMap((calendar) => calendar.getAllSubcomponents("vevent"))
    .map((component) => new ICAL.Event(component))
    .filter((event) => !event.isRecurrenceException());
}

function describeEvent(event: ICAL.Event): string {
  const name = event.summary || event.uid || "without a name";
  return `"${String(name).slice(0, 80)}"`;
}

/** Null, or what is wrong with the event. */
function collectEvent(
  event: ICAL.Event,
  { validUntil, collected }: { readonly validUntil: string | null; readonly collected: Collected },
): string | null {
  if (!event.startDate) return "has no DTSTART";
  if (isCancelled(event)) return null;
  if (!event.isRecurring()) return addOccurrence(event, { start: event.startDate, end: event.endDate }, collected);
  const rules = event.component.getAllProperties("rrule").map((property) => property.getFirstValue() as ICAL.Recur);
  if (validUntil === null && rules.some((rule) => !rule.isFinite())) {
    return "repeats without an end: say validUntil, up to when it counts";
  }
  const iterator = event.iterator();
  for (let at = iterator.next(); at !== null && at !== undefined; at = iterator.next()) {
    if (validUntil !== null && dateOf(at) > validUntil) break;
    collected.occurrences += 1;
    if (collected.occurrences > MOST_OCCURRENCES) return `has more than ${MOST_OCCURRENCES} occurrences`;
    if (!isDayOfRules(at, event, rules)) continue;
    const { item, startDate, endDate } = event.getOccurrenceDetails(at);
    if (isCancelled(item)) continue;
    const problem = addOccurrence(item, { start: startDate, end: endDate }, collected);
    if (problem !== null) return problem;
    if (collected.dates.size + collected.ranges.length > MAX_CALENDAR_ENTRIES) return null;
  }
  return null;
}

function isCancelled(event: ICAL.Event): boolean {
  return String(event.component.getFirstPropertyValue("status") ?? "").toUpperCase() === "CANCELLED";
}

/** A day that a month does not have is left out (RFC 5545, 3.3.10); the library goes on into the next month. */
function isDayOfRules(at: ICAL.Time, event: ICAL.Event, rules: readonly ICAL.Recur[]): boolean {
  const [rule] = rules;
  if (rules.length !== 1 || rule === undefined || event.component.hasProperty("rdate")) return true;
  if (rule.freq !== "YEARLY" && rule.freq !== "MONTHLY") return true;
  const parts = rule.parts as Readonly<Record<string, readonly number[] | undefined>>;
  if (parts.BYMONTHDAY !== undefined) return parts.BYMONTHDAY.some((day) => day < 0 || day === at.day);
  const others = ["BYDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS"].some((part) => parts[part] !== undefined);
  return others || at.day === event.startDate.day;
}

function addOccurrence(
  event: ICAL.Event,
  { start, end }: { readonly start: ICAL.Time; readonly end: ICAL.Time },
  collected: Collected,
): string | null {
  const reason = event.summary ? String(event.summary).slice(0, 200) : null;
  if (start.isDate) {
    const first = Date.parse(`${dateOf(start)}T00:00:00Z`);
    const last = Math.max(first + DAY_MS, Date.parse(`${dateOf(end)}T00:00:00Z`));
    // One day with a reason is a range: people read the reason.
    if (last === first + DAY_MS && reason === null) collected.dates.add(dateOf(start));
    else collected.ranges.push({ from: formatWallTime(first), until: formatWallTime(last), reason });
    return null;
  }
  const from = readPoint(start, event, "dtstart");
  const until = readPoint(end, event, event.component.hasProperty("dtend") ? "dtend" : "dtstart");
  if (from === null || until === null) return "has a time zone that neither the file nor this system knows";
  if (from < until) collected.ranges.push({ from, until, reason });
  return null;
}

/** A time without a zone is the schedule's own; every other one is an instant. */
function readPoint(time: ICAL.Time, event: ICAL.Event, property: string): string | null {
  const wall = Date.UTC(time.year, time.month - 1, time.day, time.hour, time.minute, time.second);
  const zone = event.component.getFirstProperty(property)?.getFirstParameter("tzid");
  if (typeof zone === "string" && isTimeZone(zone)) return new Date(findFirstInstant(zone, wall)).toISOString();
  if (time.zone?.tzid === "UTC") return new Date(wall).toISOString();
  if (typeof zone !== "string") return formatWallTime(wall);
  if (time.zone === undefined || time.zone.tzid === "floating") return null;
  return new Date(time.toUnixTime() * 1000).toISOString();
}

function dateOf(time: ICAL.Time): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${String(time.year).padStart(4, "0")}-${two(time.month)}-${two(time.day)}`;
}
