import { Cron } from "croner";
import { TurnoError } from "../core/errors.ts";
import { BoundedCache } from "./bounded-cache.ts";
import { parseCron } from "./cron.ts";
import type { CronExpression, DayOfMonthRule, DayOfWeekRule } from "./cron-expression.ts";

/**
 * Which wall times a cron expression matches, without any zone. A wall time is written as the milliseconds of a UTC
 * clock that shows it.
 */
export interface WallClockPattern {
  readonly open: boolean;
  /** The first match at or after the wall time; null: none until the year 9999. */
  firstAtOrAfter(wall: number): number | null;
  /** The last match at or before the wall time. */
  lastAtOrBefore(wall: number): number | null;
}

const patterns = new BoundedCache<string, WallClockPattern>(2_000);
/** 400 years of the Gregorian calendar, whole weeks. */
const CYCLE_MS = 146_097 * 86_400_000;
const LAST_WALL_TIME = Date.UTC(9999, 11, 31, 23, 59, 59);

/** The pattern of an expression, compiled once; `seed` is what `H` is hashed from. Throws TURNO_CRON_INVALID. */
export function compilePattern(expression: string, seed?: string): WallClockPattern {
  return patterns.getOrCompute(seed === undefined ? expression : `${expression}\n${seed}`, () => {
    const parsed = parseCron(expression, seed);
    if (parsed.ok) return createPattern(parsed.cron);
    const hint = parsed.hint === undefined ? {} : { hint: parsed.hint };
    throw new TurnoError("TURNO_CRON_INVALID", `${parsed.field}: ${parsed.message}`, hint);
  });
}

/** croner finds the days and times; zones and clock changes are kept from it, so that Turno's rule decides them. */
function createPattern(cron: CronExpression): WallClockPattern {
  const matcher = new Cron(formatCanonical(cron), { utcOffset: 0, mode: "6-part" });
  return {
    open: cron.open,
    firstAtOrAfter(wall) {
      if (wall > LAST_WALL_TIME) return null;
      const ahead = cyclesAhead(wall);
      const match = matcher.nextRun(new Date(wall - ahead - 1))?.getTime();
      return match === undefined || match + ahead > LAST_WALL_TIME ? null : match + ahead;
    },
    lastAtOrBefore(wall) {
      const ahead = cyclesAhead(wall);
      const match = matcher.previousRuns(1, new Date(wall - ahead + 1))[0]?.getTime();
      return match === undefined ? null : match + ahead;
    },
  };
}

/** Whole cycles since the year 2000: croner looks no further than the year 3000, and days repeat with their weekdays. */
function cyclesAhead(wall: number): number {
  return Math.max(0, Math.floor((wall - Date.UTC(2000, 0, 1)) / CYCLE_MS)) * CYCLE_MS;
}

/** What was parsed, spelled out in numbers: croner has nothing left to interpret. */
function formatCanonical(cron: CronExpression): string {
  return [
    cron.seconds.join(","),
    cron.minutes.join(","),
    cron.hours.join(","),
    formatDayOfMonth(cron.dayOfMonth),
    cron.months.join(","),
    formatDayOfWeek(cron.dayOfWeek),
  ].join(" ");
}

function formatDayOfMonth(rule: DayOfMonthRule): string {
  if (!rule.restricted) return "*";
  const special = [...(rule.last ? ["L"] : []), ...(rule.lastWeekday ? ["LW"] : [])];
  return [...rule.days, ...rule.nearestWeekdays.map((day) => `${day}W`), ...special].join(",");
}

function formatDayOfWeek(rule: DayOfWeekRule): string {
  if (!rule.restricted) return "*";
  const nth = rule.nth.map(({ weekday, nth }) => `${weekday}#${nth}`);
  return [...rule.weekdays, ...nth, ...rule.last.map((weekday) => `${weekday}#L`)].join(",");
}
