import { humanDuration } from "../core/duration.ts";
import { type CalendarDays, findCalendarSkip } from "./calendar.ts";
import { collectFires, hasForeseeableFires, instantText } from "./fire-set.ts";
import { firesBetween } from "./next-fire.ts";
import { findZoneSpan, formatLocal } from "./time-zone.ts";
import type { Timing } from "./timing.ts";

export type DayRule =
  | "every-day"
  | "business-days"
  | "weekends"
  | "first-day"
  | "last-day"
  | "first-business-day"
  | "last-business-day"
  | "mondays"
  | "tuesdays"
  | "wednesdays"
  | "thursdays"
  | "fridays"
  | "saturdays"
  | "sundays";

/** What schedules are expected to hold to. Times of day are `18:00` or `18:00:30`. */
export type Assertion =
  | {
      readonly kind: "firesOn";
      readonly days: DayRule;
      readonly times: number;
      readonly at: string | null;
      readonly otherDays: "none" | "any";
    }
  | { readonly kind: "atMost"; readonly fires: number; readonly per: "second" | "minute" | "hour" | "day" }
  | { readonly kind: "never"; readonly days: DayRule; readonly from: string | null; readonly to: string | null }
  | { readonly kind: "firesAt"; readonly instants: readonly Date[] }
  | { readonly kind: "atLeastEvery"; readonly intervalMs: number };

export interface AssertedSchedule {
  readonly name: string;
  readonly timing: Timing;
  readonly timeZone: string;
}

export interface AssertionRequest {
  readonly assertion: Assertion;
  readonly schedules: readonly AssertedSchedule[];
  /** Fires after `from`, up to and with `to`. */
  readonly from: Date;
  readonly to: Date;
  /** Zone of days and times of day; null: each schedule's own. */
  readonly timeZone: string | null;
  /** Their days are no business days. */
  readonly holidays: readonly CalendarDays[];
}

export interface AssertionResult {
  /** What does not hold, a sentence each that names its instant; the first ones. */
  readonly failures: readonly string[];
  readonly failureCount: number;
  /** Fires that were looked at. */
  readonly fires: number;
  /** What could not be looked at: then nothing is said to hold. */
  readonly unknown: readonly string[];
}

/** Fires of one schedule that are looked at. */
const MOST_FIRES = 100_000;
const MOST_FAILURES = 20;
const DAY_MS = 86_400_000;
const PERIOD_MS = { second: 1_000, minute: 60_000, hour: 3_600_000 } as const;

/** Checks what is expected against the fires of a stretch of time. Pure. */
export function checkAssertion(request: AssertionRequest): AssertionResult {
  const { schedules, from, to } = request;
  const known = schedules.filter(({ timing }) => hasForeseeableFires(timing));
  const sets = known.map((schedule) => ({
    schedule,
    set: collectFires(schedule.timing, { after: from, until: to }, MOST_FIRES),
  }));
  const unknown = [
    ...schedules
      .filter((schedule) => !known.includes(schedule))
      .map(({ name }) => `Schedule/${name} fires when its runs end, which cannot be foreseen`),
    ...sets
      .filter(({ set }) => !set.complete)
      .map(
        ({ schedule, set }) =>
          `Schedule/${schedule.name} fires too often: it was looked at until ${instantText(set.knownUntil)} only`,
      ),
  ];
  const failures: string[] = [];
  let failureCount = 0;
  const fail = (sentence: string): void => {
    failureCount += 1;
    if (failures.length < MOST_FAILURES) failures.push(sentence);
  };
  const { assertion } = request;
  if (assertion.kind === "atMost") {
    checkAtMost(assertion, {
      sets: sets.map(({ schedule, set }) => ({ name: schedule.name, fires: set.fires })),
      request,
      fail,
    });
  } else {
    // Of a part nothing can be said: a fire that is not there may be one that was not looked at.
    const whole = sets.filter(({ set }) => set.complete);
    for (const { schedule, set } of whole) checkOne(assertion, { schedule, fires: set.fires, request, fail });
  }
  return { failures, failureCount, fires: sets.reduce((sum, { set }) => sum + set.fires.length, 0), unknown };
}

interface OneContext {
  readonly schedule: AssertedSchedule;
  readonly fires: readonly number[];
  readonly request: AssertionRequest;
  readonly fail: (sentence: string) => void;
}

function checkOne(assertion: Exclude<Assertion, { kind: "atMost" }>, context: OneContext): void {
  switch (assertion.kind) {
    case "firesOn":
      checkFiresOn(assertion, context);
      break;
    case "never":
      checkNever(assertion, context);
      break;
    case "firesAt":
      checkFiresAt(assertion, context);
      break;
    case "atLeastEvery":
      checkAtLeastEvery(assertion, context);
      break;
  }
}

/** Whole days only: what lies before the first and after the last midnight of the stretch is not judged. */
function checkFiresOn(
  { days, times, at, otherDays }: Assertion & { readonly kind: "firesOn" },
  { schedule, fires, request, fail }: OneContext,
): void {
  const zone = request.timeZone ?? schedule.timeZone;
  const judge = createDayJudge(zone, request.holidays);
  const byDay = new Map<number, number[]>();
  for (const fire of fires) {
    const day = dayOf(fire, zone);
    const known = byDay.get(day);
    if (known === undefined) byDay.set(day, [fire]);
    else known.push(fire);
  }
  const first = dayOf(request.from.getTime(), zone) + DAY_MS;
  const last = dayOf(request.to.getTime(), zone);
  for (let day = first; day < last; day += DAY_MS) {
    const found = byDay.get(day) ?? [];
    const text = `${dayText(day)}`;
    const shown =
      found.length === 0
        ? "none"
        : `${found.length}: ${found
            .slice(0, 3)
            .map((fire) => show(fire, zone))
            .join(", ")}`;
    if (judge(days, day)) {
      if (found.length !== times)
        fail(
          `Schedule/${schedule.name}: expected ${times} ${times === 1 ? "fire" : "fires"} on ${text} (${days}), found ${shown}`,
        );
      for (const fire of found) {
        if (at !== null && clockOf(fire, zone) !== withSeconds(at))
          fail(`Schedule/${schedule.name}: expected the fire at ${at} on ${text}, found ${show(fire, zone)}`);
      }
    } else if (otherDays === "none" && found.length > 0) {
      fail(`Schedule/${schedule.name}: expected no fire on ${text}, which is none of ${days}, found ${shown}`);
    }
  }
}

function checkNever(
  { days, from, to }: Assertion & { readonly kind: "never" },
  { schedule, fires, request, fail }: OneContext,
): void {
  const zone = request.timeZone ?? schedule.timeZone;
  const judge = createDayJudge(zone, request.holidays);
  const [begin, end] = [from === null ? 0 : clockMs(from), to === null ? DAY_MS : clockMs(to)];
  for (const fire of fires) {
    const day = dayOf(fire, zone);
    const clock = fire + findZoneSpan(zone, fire).offset - day;
    const isToday = judge(days, day) && clock >= begin && (begin < end ? clock < end : true);
    // A stretch over midnight belongs to the day it begins on.
    const isFromYesterday = begin >= end && clock < end && judge(days, day - DAY_MS);
    if (isToday || isFromYesterday) {
      fail(
        `Schedule/${schedule.name}: expected no fire ${describeStretch(days, from, to)} in ${zone}, found ${show(fire, zone)}`,
      );
    }
  }
}

function checkFiresAt({ instants }: Assertion & { readonly kind: "firesAt" }, { schedule, fail }: OneContext): void {
  const wanted = [...new Set(instants.map((at) => at.getTime()))].sort((left, right) => left - right);
  const [first, last] = [wanted[0], wanted.at(-1)];
  if (first === undefined || last === undefined) return;
  const found = firesBetween(schedule.timing, new Date(first - 1), new Date(last), MOST_FIRES).map((fire) =>
    fire.getTime(),
  );
  const expected = new Set(wanted);
  const there = new Set(found);
  for (const at of wanted) {
    if (!there.has(at)) fail(`Schedule/${schedule.name}: expected a fire at ${instantText(at)}, found none`);
  }
  for (const at of found) {
    if (!expected.has(at))
      fail(`Schedule/${schedule.name}: expected no fire at ${instantText(at)}, between those named, found one`);
  }
}

function checkAtLeastEvery(
  { intervalMs }: Assertion & { readonly kind: "atLeastEvery" },
  { schedule, fires, request, fail }: OneContext,
): void {
  // The beginning and the end of the stretch count too: a schedule without any fire is the longest gap.
  const marks = [request.from.getTime(), ...fires, request.to.getTime()];
  for (const [index, at] of marks.entries()) {
    const before = marks[index - 1];
    if (before === undefined || at - before <= intervalMs) continue;
    fail(
      `Schedule/${schedule.name}: expected a fire at least every ${humanDuration(intervalMs)}, found none from ${instantText(before)} to ${instantText(at)}`,
    );
  }
}

function checkAtMost(
  { fires: most, per }: Assertion & { readonly kind: "atMost" },
  context: {
    readonly sets: readonly { readonly name: string; readonly fires: readonly number[] }[];
    readonly request: AssertionRequest;
    readonly fail: (sentence: string) => void;
  },
): void {
  const zone = context.request.timeZone ?? "UTC";
  const periodOf = (at: number) => (per === "day" ? dayOf(at, zone) : at - (at % PERIOD_MS[per]));
  const counts = new Map<number, number>();
  for (const { fires } of context.sets) {
    for (const at of fires) counts.set(periodOf(at), (counts.get(periodOf(at)) ?? 0) + 1);
  }
  const over = [...counts].filter(([, count]) => count > most).sort(([left], [right]) => left - right);
  for (const [index, [period, count]] of over.entries()) {
    const names =
      index >= MOST_FAILURES
        ? []
        : context.sets.filter(({ fires }) => fires.some((at) => periodOf(at) === period)).map(({ name }) => name);
    const when = per === "day" ? `on ${dayText(period)}` : `in the ${per} of ${instantText(period)}`;
    context.fail(
      `expected at most ${most} ${most === 1 ? "fire" : "fires"} ${when}, found ${count}: ${names.slice(0, 5).join(", ")}${names.length > 5 ? ` and ${names.length - 5} more` : ""}`,
    );
  }
}

const WEEKDAYS: Partial<Record<DayRule, number>> = {
  sundays: 0,
  mondays: 1,
  tuesdays: 2,
  wednesdays: 3,
  thursdays: 4,
  fridays: 5,
  saturdays: 6,
};

/** Whether a day, as the milliseconds of its midnight on a UTC clock, is one of a rule's. */
function createDayJudge(timeZone: string, holidays: readonly CalendarDays[]): (rule: DayRule, day: number) => boolean {
  const calendars = { timeZone, include: [], exclude: holidays };
  const isBusinessDay = (day: number): boolean => {
    const weekday = new Date(day).getUTCDay();
    if (weekday === 0 || weekday === 6) return false;
    // By noon: no clock change reaches it.
    return (
      holidays.length === 0 ||
      findCalendarSkip(calendars, day + DAY_MS / 2 - findZoneSpan(timeZone, day).offset) === null
    );
  };
  const sameMonth = (left: number, right: number) => new Date(left).getUTCMonth() === new Date(right).getUTCMonth();
  const isFirst = (day: number, isOne: (day: number) => boolean): boolean => {
    if (!isOne(day)) return false;
    for (let other = day - DAY_MS; sameMonth(other, day); other -= DAY_MS) if (isOne(other)) return false;
    return true;
  };
  const isLast = (day: number, isOne: (day: number) => boolean): boolean => {
    if (!isOne(day)) return false;
    for (let other = day + DAY_MS; sameMonth(other, day); other += DAY_MS) if (isOne(other)) return false;
    return true;
  };
  return (rule, day) => {
    const weekday = new Date(day).getUTCDay();
    switch (rule) {
      case "every-day":
        return true;
      case "business-days":
        return isBusinessDay(day);
      case "weekends":
        return weekday === 0 || weekday === 6;
      case "first-day":
        return isFirst(day, () => true);
      case "last-day":
        return isLast(day, () => true);
      case "first-business-day":
        return isFirst(day, isBusinessDay);
      case "last-business-day":
        return isLast(day, isBusinessDay);
      default:
        return WEEKDAYS[rule] === weekday;
    }
  };
}

function dayOf(at: number, timeZone: string): number {
  return Math.floor((at + findZoneSpan(timeZone, at).offset) / DAY_MS) * DAY_MS;
}

function clockOf(at: number, timeZone: string): string {
  return formatLocal(new Date(at), timeZone).slice(11, 19);
}

function clockMs(clock: string): number {
  const [hours = 0, minutes = 0, seconds = 0] = clock.split(":").map(Number);
  return ((hours * 60 + minutes) * 60 + seconds) * 1_000;
}

function withSeconds(clock: string): string {
  return clock.length === 5 ? `${clock}:00` : clock;
}

const NAMES = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/** `Friday 2027-01-29`. */
function dayText(day: number): string {
  return `${NAMES[new Date(day).getUTCDay()]} ${new Date(day).toISOString().slice(0, 10)}`;
}

/** `2027-01-29T18:00:00-03:00 (2027-01-29T21:00:00Z)`. */
function show(at: number, timeZone: string): string {
  return `${formatLocal(new Date(at), timeZone)} (${instantText(at)})`;
}

function describeStretch(days: DayRule, from: string | null, to: string | null): string {
  const on = days === "every-day" ? "" : ` on ${days}`;
  if (from === null && to === null) return days === "every-day" ? "at all" : `on ${days}`;
  return `from ${from ?? "00:00"} to ${to ?? "24:00"}${on}`;
}
