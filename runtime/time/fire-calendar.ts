import { findCalendarSkip } from "./calendar.ts";
import { listClockChanges } from "./clock-change-notes.ts";
import { collectFires, hasForeseeableFires } from "./fire-set.ts";
import { findFirstInstant, findZoneSpan } from "./time-zone.ts";
import type { Timing } from "./timing.ts";

export interface CalendarSchedule {
  readonly name: string;
  readonly timing: Timing;
}

/** One day of a month in a zone, with what fires on it. */
export interface CalendarDay {
  /** `2026-12-24`. */
  readonly date: string;
  /** 0 is Sunday. */
  readonly weekday: number;
  readonly fires: readonly { readonly name: string; readonly instants: readonly number[] }[];
  /** What the clocks do on this day: `02:00 → 03:00`. */
  readonly clockChange: string | null;
  /** Schedules whose calendars leave out the whole day, judged by its noon. */
  readonly leftOut: readonly string[];
}

export interface CalendarMonth {
  /** `2026-12`. */
  readonly month: string;
  readonly days: readonly CalendarDay[];
  /** Schedules that fire too often to be counted to the end of the month. */
  readonly incomplete: readonly string[];
  /** Schedules whose fires follow from the ends of runs. */
  readonly unforeseeable: readonly string[];
}

/** Every minute of a month, and a little more. */
const MOST_FIRES = 50_000;
const DAY_MS = 86_400_000;

/** The fires of a month, day by day in a zone. `month` is `2026-12`. */
export function layOutMonth(
  schedules: readonly CalendarSchedule[],
  { month, timeZone }: { readonly month: string; readonly timeZone: string },
): CalendarMonth {
  const [year = 1970, number = 1] = month.split("-").map(Number);
  const first = Date.UTC(year, number - 1, 1);
  const next = Date.UTC(year, number, 1);
  const stretch = {
    after: new Date(findFirstInstant(timeZone, first) - 1),
    until: new Date(findFirstInstant(timeZone, next) - 1),
  };
  const sets = schedules
    .filter(({ timing }) => hasForeseeableFires(timing))
    .map((schedule) => ({ schedule, set: collectFires(schedule.timing, stretch, MOST_FIRES) }));
  const byDay = new Map<number, { name: string; instants: number[] }[]>();
  for (const { schedule, set } of sets) {
    for (const at of set.fires) {
      const day = Math.floor((at + findZoneSpan(timeZone, at).offset) / DAY_MS) * DAY_MS;
      const entries = byDay.get(day) ?? [];
      byDay.set(day, entries);
      const last = entries.at(-1);
      if (last?.name === schedule.name) last.instants.push(at);
      else entries.push({ name: schedule.name, instants: [at] });
    }
  }
  const changes = new Map(
    listClockChanges(timeZone, stretch).map(({ day, before, after }) => [day, `${before} → ${after}`]),
  );
  const days: CalendarDay[] = [];
  for (let day = first; day < next; day += DAY_MS) {
    const date = new Date(day).toISOString().slice(0, 10);
    const noon = day + DAY_MS / 2 - findZoneSpan(timeZone, day).offset;
    days.push({
      date,
      weekday: new Date(day).getUTCDay(),
      fires: byDay.get(day) ?? [],
      clockChange: changes.get(date) ?? null,
      leftOut: schedules
        .filter(({ timing }) => timing.calendars !== undefined && findCalendarSkip(timing.calendars, noon) !== null)
        .map(({ name }) => name),
    });
  }
  return {
    month,
    days,
    incomplete: sets.filter(({ set }) => !set.complete).map(({ schedule }) => schedule.name),
    unforeseeable: schedules.filter(({ timing }) => !hasForeseeableFires(timing)).map(({ name }) => name),
  };
}

/** The month `count` months after `2026-12`. */
export function addMonths(month: string, count: number): string {
  const [year = 1970, number = 1] = month.split("-").map(Number);
  return new Date(Date.UTC(year, number - 1 + count, 1)).toISOString().slice(0, 7);
}
