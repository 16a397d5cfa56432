import type { CronExpression } from "./cron-expression.ts";

/** A field of an expression against a wall time. */
export interface FieldMatch {
  readonly field: "second" | "minute" | "hour" | "day" | "month";
  readonly matches: boolean;
  /** What the clock shows: `02`, `Sunday the 29th`. */
  readonly found: string;
}

const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  ...["January", "February", "March", "April", "May", "June"],
  ...["July", "August", "September", "October", "November", "December"],
];

/** Each field of an expression against a wall time, as milliseconds of a UTC clock that shows it. */
export function matchFields(cron: CronExpression, wall: number): readonly FieldMatch[] {
  const time = new Date(wall);
  const [second, minute, hour, month] = [
    time.getUTCSeconds(),
    time.getUTCMinutes(),
    time.getUTCHours(),
    time.getUTCMonth() + 1,
  ];
  const two = (value: number) => String(value).padStart(2, "0");
  return [
    { field: "month", matches: cron.months.includes(month), found: MONTHS[month - 1] ?? "" },
    {
      field: "day",
      matches: matchesDay(cron, time),
      found: `${WEEKDAYS[time.getUTCDay()]} the ${ordinal(time.getUTCDate())}`,
    },
    { field: "hour", matches: cron.hours.includes(hour), found: two(hour) },
    { field: "minute", matches: cron.minutes.includes(minute), found: two(minute) },
    { field: "second", matches: cron.seconds.includes(second), found: two(second) },
  ];
}

/** Both days restricted: either matches. */
function matchesDay(cron: CronExpression, time: Date): boolean {
  const { dayOfMonth, dayOfWeek } = cron;
  if (!dayOfMonth.restricted && !dayOfWeek.restricted) return true;
  return (
    (dayOfMonth.restricted && matchesDayOfMonth(cron, time)) || (dayOfWeek.restricted && matchesDayOfWeek(cron, time))
  );
}

function matchesDayOfMonth({ dayOfMonth }: CronExpression, time: Date): boolean {
  const day = time.getUTCDate();
  const lastDay = lastDayOf(time);
  if (dayOfMonth.days.includes(day) || (dayOfMonth.last && day === lastDay)) return true;
  const nearest = [...dayOfMonth.nearestWeekdays, ...(dayOfMonth.lastWeekday ? [lastDay] : [])];
  return nearest.some((wanted) => wanted <= lastDay && nearestWeekday(time, wanted, lastDay) === day);
}

/** The Monday to Friday nearest to a day, within its month. */
function nearestWeekday(time: Date, day: number, lastDay: number): number {
  const weekday = new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth(), day)).getUTCDay();
  if (weekday === 6) return day === 1 ? 3 : day - 1;
  if (weekday === 0) return day === lastDay ? day - 2 : day + 1;
  return day;
}

function matchesDayOfWeek({ dayOfWeek }: CronExpression, time: Date): boolean {
  const weekday = time.getUTCDay();
  const day = time.getUTCDate();
  return (
    dayOfWeek.weekdays.includes(weekday) ||
    dayOfWeek.nth.some((rule) => rule.weekday === weekday && Math.ceil(day / 7) === rule.nth) ||
    (dayOfWeek.last.includes(weekday) && day + 7 > lastDayOf(time))
  );
}

function lastDayOf(time: Date): number {
  return new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1, 0)).getUTCDate();
}

function ordinal(day: number): string {
  const ending = day % 100 >= 11 && day % 100 <= 13 ? "th" : (["th", "st", "nd", "rd"][day % 10] ?? "th");
  return `${day}${ending}`;
}
