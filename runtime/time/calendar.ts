import { findFirstInstant, findZoneSpan } from "./time-zone.ts";

/** The days and stretches of time that one calendar names. */
export interface CalendarDays {
  readonly name: string;
  /** `2026-12-25`, in the schedule's zone; sorted. */
  readonly dates: readonly string[];
  readonly ranges: readonly CalendarRange[];
  /** 0 is Sunday; sorted. */
  readonly weekdays: readonly number[];
}

/** Both as `2026-12-24T18:00:00` in the schedule's zone, or with a `Z` as instants. */
export interface CalendarRange {
  readonly from: string;
  /** The end, which no longer belongs to it. */
  readonly until: string;
  readonly reason: string | null;
}

/** Which days a schedule keeps to. With `include`, only days of one of these; never days of one of `exclude`. */
export interface ScheduleCalendars {
  readonly timeZone: string;
  readonly include: readonly CalendarDays[];
  readonly exclude: readonly CalendarDays[];
}

/** Why a calendar keeps a schedule from firing at an instant. */
export interface CalendarSkip {
  /** Null: no calendar of `include` has the day. */
  readonly calendar: string | null;
  readonly reason: string | null;
}

const DAY_MS = 86_400_000;
/** Far more than the stretches that any calendar cuts the future into before a day is found, or there is none. */
const MOST_STEPS = 20_000;

interface Stretch {
  readonly from: number;
  readonly until: number;
  readonly reason: string | null;
}

/** Stretches sorted by their start; they may overlap. */
interface CompiledCalendar {
  readonly name: string;
  readonly stretches: readonly Stretch[];
  readonly weekdays: readonly number[];
}

interface CompiledCalendars {
  readonly timeZone: string;
  readonly include: readonly CompiledCalendar[];
  readonly exclude: readonly CompiledCalendar[];
}

const compiled = new WeakMap<ScheduleCalendars, CompiledCalendars>();

/** Why the schedule does not fire at the instant; null: it may. */
export function findCalendarSkip(calendars: ScheduleCalendars, at: number): CalendarSkip | null {
  const { timeZone, include, exclude } = compile(calendars);
  for (const calendar of exclude) {
    const found = findStretch(calendar, { at, timeZone });
    if (found !== null) return { calendar: calendar.name, reason: found.reason };
  }
  const included = include.length === 0 || include.some((calendar) => findStretch(calendar, { at, timeZone }) !== null);
  return included ? null : { calendar: null, reason: null };
}

/** The first instant at or after `at` at which the calendars let the schedule fire; null: never again. */
export function nextAllowed(calendars: ScheduleCalendars, at: number): number | null {
  const { timeZone, include, exclude } = compile(calendars);
  let instant = at;
  for (let step = 0; step < MOST_STEPS; step++) {
    const here = { at: instant, timeZone };
    const excluded = firstOf(exclude, (calendar) => findStretch(calendar, here));
    if (excluded !== null) {
      instant = excluded.until;
      continue;
    }
    if (include.length === 0 || include.some((calendar) => findStretch(calendar, here) !== null)) return instant;
    const starts = include.map((calendar) => findNextStart(calendar, here));
    instant = Math.min(...starts);
    if (instant === Number.POSITIVE_INFINITY) return null;
  }
  return null;
}

/** The last instant at or before `at` at which the calendars let the schedule fire; null: none since 1970. */
export function previousAllowed(calendars: ScheduleCalendars, at: number): number | null {
  const { timeZone, include, exclude } = compile(calendars);
  let instant = at;
  for (let step = 0; step < MOST_STEPS && instant >= 0; step++) {
    const here = { at: instant, timeZone };
    const excluded = firstOf(exclude, (calendar) => findStretch(calendar, here));
    if (excluded !== null) {
      instant = excluded.from - 1;
      continue;
    }
    if (include.length === 0 || include.some((calendar) => findStretch(calendar, here) !== null)) return instant;
    instant = Math.max(...include.map((calendar) => findPreviousEnd(calendar, here)));
  }
  return null;
}

interface Place {
  readonly at: number;
  readonly timeZone: string;
}

/** The stretch of the calendar that holds the instant, a weekday's being its whole day. */
function findStretch(calendar: CompiledCalendar, { at, timeZone }: Place): Stretch | null {
  const stretch = calendar.stretches.find(({ from, until }) => from <= at && at < until);
  if (stretch !== undefined) return stretch;
  if (calendar.weekdays.length === 0) return null;
  const { day, from, until } = readDay(at, timeZone);
  return calendar.weekdays.includes(weekdayOf(day)) ? { from, until, reason: null } : null;
}

/** Where the calendar begins next, after an instant that it does not hold. */
function findNextStart(calendar: CompiledCalendar, { at, timeZone }: Place): number {
  let next = calendar.stretches.find(({ from }) => from > at)?.from ?? Number.POSITIVE_INFINITY;
  if (calendar.weekdays.length > 0) {
    let until = readDay(at, timeZone).until;
    while (!calendar.weekdays.includes(weekdayOf(readDay(until, timeZone).day))) until = readDay(until, timeZone).until;
    next = Math.min(next, until);
  }
  return next;
}

/** The last instant of the calendar before one that it does not hold; negative: none. */
function findPreviousEnd(calendar: CompiledCalendar, { at, timeZone }: Place): number {
  let previous = -1;
  for (const { from, until } of calendar.stretches) if (from < at) previous = Math.max(previous, until - 1);
  if (calendar.weekdays.length > 0) {
    let last = readDay(at, timeZone).from - 1;
    while (!calendar.weekdays.includes(weekdayOf(readDay(last, timeZone).day))) last = readDay(last, timeZone).from - 1;
    previous = Math.max(previous, last);
  }
  return previous;
}

/** The local day of an instant, as the milliseconds of its midnight on a UTC clock, and the instants it reaches over. */
function readDay(
  at: number,
  timeZone: string,
): { readonly day: number; readonly from: number; readonly until: number } {
  const span = findZoneSpan(timeZone, at);
  const day = Math.floor((at + span.offset) / DAY_MS) * DAY_MS;
  const from = Math.min(at, findFirstInstant(timeZone, day));
  const until = findFirstInstant(timeZone, day + DAY_MS);
  // Clocks that go back over midnight show a day again: then it ends with the stretch.
  return { day, from, until: until > at ? until : span.until };
}

function weekdayOf(day: number): number {
  return new Date(day).getUTCDay();
}

function compile(calendars: ScheduleCalendars): CompiledCalendars {
  const known = compiled.get(calendars);
  if (known !== undefined) return known;
  const { timeZone } = calendars;
  const each = (list: readonly CalendarDays[]) => list.map((calendar) => compileCalendar(calendar, timeZone));
  const result = { timeZone, include: each(calendars.include), exclude: each(calendars.exclude) };
  compiled.set(calendars, result);
  return result;
}

function compileCalendar({ name, dates, ranges, weekdays }: CalendarDays, timeZone: string): CompiledCalendar {
  const instant = (text: string): number => {
    const value = Date.parse(text.endsWith("Z") ? text : `${text}Z`);
    return text.endsWith("Z") ? value : findFirstInstant(timeZone, value);
  };
  const days = dates.map((date) => {
    const day = Date.parse(`${date}T00:00:00Z`);
    return { from: findFirstInstant(timeZone, day), until: findFirstInstant(timeZone, day + DAY_MS), reason: null };
  });
  const stretches = ranges.map(({ from, until, reason }) => ({ from: instant(from), until: instant(until), reason }));
  // What has a reason is found first.
  const all = [...stretches, ...days].sort((left, right) => left.from - right.from);
  return { name, stretches: all.filter(({ from, until }) => from < until), weekdays };
}

function firstOf<Item, Found>(items: readonly Item[], find: (item: Item) => Found | null): Found | null {
  for (const item of items) {
    const found = find(item);
    if (found !== null) return found;
  }
  return null;
}
