/**
 * An oracle that shares nothing with the evaluator: it reads the local time of every second or minute of a window
 * with Intl and applies the rule of clock changes word by word.
 */

/** A cron schedule as sets of values and day predicates, beside its text. */
export interface CronModel {
  readonly expression: string;
  readonly seconds: ReadonlySet<number>;
  readonly minutes: ReadonlySet<number>;
  readonly hours: ReadonlySet<number>;
  readonly months: ReadonlySet<number>;
  /** Null: not restricted. */
  readonly dayOfMonth: ((date: CalendarDate) => boolean) | null;
  readonly dayOfWeek: ((date: CalendarDate) => boolean) | null;
  readonly open: boolean;
}

export interface CalendarDate {
  readonly day: number;
  /** 0 is Sunday. */
  readonly weekday: number;
  readonly lastDay: number;
  /** Weekday of the first day of the month. */
  readonly firstWeekday: number;
}

/** A stretch of real time with the local time of each of its steps. */
export interface Window {
  readonly timeZone: string;
  readonly start: number;
  readonly end: number;
  readonly stepMs: number;
  /** Local time of `start + index × stepMs`, as milliseconds of a UTC clock that shows it. */
  readonly locals: readonly number[];
}

export function readWindow(timeZone: string, start: number, end: number, stepMs: number): Window {
  const format = new Intl.DateTimeFormat("en-CA", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  const locals: number[] = [];
  for (let at = start; at <= end; at += stepMs) {
    locals.push(Date.parse(`${format.format(at).replace(", ", "T")}Z`));
  }
  return { timeZone, start, end, stepMs, locals };
}

/** What becomes of times that don't exist or occur twice, where a schedule says it itself. */
export interface ChangeRule {
  readonly gap?: "shift" | "skip";
  readonly fold?: "first" | "second" | "both";
}

/** Every fire of the window but those of its first `lead` milliseconds, which only tell which local times were seen. */
export function bruteForceFires(model: CronModel, window: Window, lead: number, rule: ChangeRule = {}): number[] {
  const { gap = model.open ? "skip" : "shift", fold = model.open ? "both" : "first" } = rule;
  const fires = new Set<number>();
  const seen = new Set<number>();
  const lastPass = new Map(window.locals.map((local, index) => [local, index]));
  let previous: number | undefined;
  window.locals.forEach((local, index) => {
    const at = window.start + index * window.stepMs;
    const isFirstPass = !seen.has(local);
    seen.add(local);
    const isPass = fold === "both" || (fold === "first" ? isFirstPass : lastPass.get(local) === index);
    if (matches(model, local) && isPass) fires.add(at);
    if (gap === "shift" && previous !== undefined) {
      for (let missing = previous + window.stepMs; missing < local; missing += window.stepMs) {
        if (matches(model, missing)) fires.add(at);
      }
    }
    previous = local;
  });
  return [...fires].filter((at) => at > window.start + lead).sort((left, right) => left - right);
}

function matches(model: CronModel, local: number): boolean {
  const date = new Date(local);
  if (!model.seconds.has(date.getUTCSeconds()) || !model.minutes.has(date.getUTCMinutes())) return false;
  if (!model.hours.has(date.getUTCHours()) || !model.months.has(date.getUTCMonth() + 1)) return false;
  const calendar: CalendarDate = {
    day: date.getUTCDate(),
    weekday: date.getUTCDay(),
    lastDay: new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate(),
    firstWeekday: new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)).getUTCDay(),
  };
  const { dayOfMonth, dayOfWeek } = model;
  if (dayOfMonth !== null && dayOfWeek !== null) return dayOfMonth(calendar) || dayOfWeek(calendar);
  if (dayOfMonth !== null) return dayOfMonth(calendar);
  return dayOfWeek === null || dayOfWeek(calendar);
}
