/** A parsed cron expression. Every list is sorted, without duplicates and not empty unless said otherwise. */
export interface CronExpression {
  /** As written, without spaces around it. */
  readonly source: string;
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly dayOfMonth: DayOfMonthRule;
  /** 1 is January. */
  readonly months: readonly number[];
  readonly dayOfWeek: DayOfWeekRule;
  /** `*` or a step stands in the hour or the minute: such times follow real time through clock changes. */
  readonly open: boolean;
}

/** Which days of a month match; lists may be empty, one of the rules is set. */
export interface DayOfMonthRule {
  /** False for `*`, `?` and a step of 1. */
  readonly restricted: boolean;
  readonly days: readonly number[];
  /** `L`. */
  readonly last: boolean;
  /** `LW`: the last Monday to Friday of the month. */
  readonly lastWeekday: boolean;
  /** `15W`: the Monday to Friday nearest to the day, within the month. */
  readonly nearestWeekdays: readonly number[];
}

/** Which weekdays match, 0 is Sunday; lists may be empty, one of the rules is set. */
export interface DayOfWeekRule {
  readonly restricted: boolean;
  readonly weekdays: readonly number[];
  /** `FRI#2`: the second Friday of the month. */
  readonly nth: readonly { readonly weekday: number; readonly nth: number }[];
  /** `FRIL`: the last Friday of the month. */
  readonly last: readonly number[];
}

/** Why an expression is refused. */
export interface CronProblem {
  readonly ok: false;
  /** `second`, `minute`, `hour`, `day of month`, `month`, `day of week`, or `expression` for the whole. */
  readonly field: string;
  readonly message: string;
  readonly hint?: string;
}
