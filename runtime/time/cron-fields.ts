import type { CronProblem, DayOfMonthRule, DayOfWeekRule } from "./cron-expression.ts";

/** The fields that hold plain numbers. */
export type NumberField = "second" | "minute" | "hour" | "month";

type Field = NumberField | "day of month" | "day of week";

interface FieldRange {
  readonly min: number;
  readonly max: number;
  /** How many different values the field has; the largest step. */
  readonly size: number;
  /** Names in the order of their numbers, from `min`. */
  readonly names: readonly string[];
  /** What the values are, for messages. */
  readonly describe: string;
}

const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const RANGES: Readonly<Record<Field, FieldRange>> = {
  second: { min: 0, max: 59, size: 60, names: [], describe: "a number from 0 to 59" },
  minute: { min: 0, max: 59, size: 60, names: [], describe: "a number from 0 to 59" },
  hour: { min: 0, max: 23, size: 24, names: [], describe: "a number from 0 to 23" },
  "day of month": { min: 1, max: 31, size: 31, names: [], describe: "a number from 1 to 31" },
  month: { min: 1, max: 12, size: 12, names: MONTHS, describe: "a number from 1 to 12 or a name from JAN to DEC" },
  "day of week": {
    min: 0,
    max: 7,
    size: 7,
    names: WEEKDAYS,
    describe: "a number from 0 to 7 or a name from SUN to SAT",
  },
};

/** Units of `every`, for the fields whose step people take for an interval. */
const INTERVAL_UNITS: Readonly<Partial<Record<Field, string>>> = { second: "s", minute: "m", hour: "h" };

type Parsed<Value> = ({ readonly ok: true } & Value) | CronProblem;
type ItemValues = Parsed<{ readonly values: readonly number[]; readonly open: boolean }>;

/** A field without rules of its own: its values sorted, and whether it holds `*` or a step. */
export function parseNumbers(
  field: NumberField,
  text: string,
): Parsed<{ readonly values: readonly number[]; readonly open: boolean }> {
  const items = splitList(field, text);
  if (!items.ok) return items;
  const values = new Set<number>();
  let open = false;
  for (const item of items.items) {
    const parsed = parseItem(field, item);
    if (!parsed.ok) return parsed;
    for (const value of parsed.values) values.add(value);
    open ||= parsed.open;
  }
  return { ok: true, values: sorted(values), open };
}

/** Day of month: numbers, `L`, `LW` and `15W`. */
export function parseDayOfMonth(text: string): Parsed<{ readonly rule: DayOfMonthRule }> {
  const field = "day of month";
  const items = splitList(field, text);
  if (!items.ok) return items;
  const days = new Set<number>();
  const nearest = new Set<number>();
  let last = false;
  let lastWeekday = false;
  for (const item of items.items) {
    const upper = item.toUpperCase();
    if (upper === "L") last = true;
    else if (upper === "LW") lastWeekday = true;
    else if (/^\d{1,2}W$/.test(upper)) {
      const day = parseNumber(field, upper.slice(0, -1), item);
      if (!day.ok) return day;
      nearest.add(day.value);
    } else if (/^L-\d/.test(upper)) {
      return refuse(field, `days before the last one, "${item}", are not understood`, "write L for the last day");
    } else {
      const parsed = parseItem(field, item);
      if (!parsed.ok) return parsed;
      for (const value of parsed.values) days.add(value);
    }
  }
  if (lastWeekday && items.items.length > 1) {
    return refuse(field, `"LW" stands alone, found it in the list "${text}"`, "write two schedules");
  }
  const restricted = !isUnrestricted(text);
  return {
    ok: true,
    rule: { restricted, days: sorted(days), last, lastWeekday, nearestWeekdays: sorted(nearest) },
  };
}

/** Day of week: numbers (0 and 7 are Sunday), names, `FRI#2` and `FRIL`. */
export function parseDayOfWeek(text: string): Parsed<{ readonly rule: DayOfWeekRule }> {
  const field = "day of week";
  const items = splitList(field, text);
  if (!items.ok) return items;
  const weekdays = new Set<number>();
  const nth = new Map<string, { readonly weekday: number; readonly nth: number }>();
  const last = new Set<number>();
  for (const item of items.items) {
    const parsed = item.includes("#") ? parseNth(item) : parseLastWeekday(item);
    if (parsed === null) {
      const plain = parseItem(field, item);
      if (!plain.ok) return plain;
      for (const value of plain.values) weekdays.add(value % 7);
    } else if (!parsed.ok) return parsed;
    else if (parsed.nth === null) last.add(parsed.weekday);
    else nth.set(`${parsed.weekday}#${parsed.nth}`, { weekday: parsed.weekday, nth: parsed.nth });
  }
  const restricted = !isUnrestricted(text);
  return {
    ok: true,
    rule: { restricted, weekdays: sorted(weekdays), nth: [...nth.values()], last: sorted(last) },
  };
}

type WeekdayOfMonth = Parsed<{ readonly weekday: number; readonly nth: number | null }>;

/** `FRI#2`. */
function parseNth(item: string): WeekdayOfMonth {
  const field = "day of week";
  const [dayText = "", nthText = "", ...rest] = item.split("#");
  if (rest.length > 0) return refuse(field, `"${item}" holds more than one #`, "write FRI#2 for the second Friday");
  if (/^l$/i.test(nthText)) return refuse(field, `"${item}" is not understood`, `write ${dayText}L`);
  const weekday = parseNumber(field, dayText, item);
  if (!weekday.ok) return weekday;
  if (!/^[1-5]$/.test(nthText)) {
    return refuse(field, `expected a number from 1 to 5 after #, found "${nthText}" in "${item}"`);
  }
  return { ok: true, weekday: weekday.value % 7, nth: Number(nthText) };
}

/** `FRIL` or `5L`; null when the item is something else. */
function parseLastWeekday(item: string): WeekdayOfMonth | null {
  const field = "day of week";
  if (/^l$/i.test(item)) {
    return refuse(field, `"${item}" alone names no weekday`, "write SATL for the last Saturday of the month, or SAT");
  }
  const match = /^(\d{1,2}|[a-z]{3})l$/i.exec(item);
  if (match === null) return null;
  const weekday = parseNumber(field, match[1] ?? "", item);
  return weekday.ok ? { ok: true, weekday: weekday.value % 7, nth: null } : weekday;
}

function splitList(field: Field, text: string): Parsed<{ readonly items: readonly string[] }> {
  const items = text.split(",");
  if (items.includes(""))
    return refuse(field, `a value is missing in the list "${text}"`, "values stand between commas");
  const wild = items.find((item) => item === "*" || item === "?");
  if (wild !== undefined && items.length > 1) {
    return refuse(field, `"${wild}" stands alone, found it in the list "${text}"`, `write ${wild} for every value`);
  }
  return { ok: true, items };
}

/** One part of a list: `*`, `?`, a number, a range, each but the number with a step. */
function parseItem(field: Field, item: string): ItemValues {
  const [base = "", stepText, ...rest] = item.split("/");
  if (rest.length > 0) return refuse(field, `"${item}" holds more than one /`);
  const bounds = parseBounds(field, base, item);
  if (!bounds.ok) return bounds;
  const isWild = base === "*";
  if (stepText === undefined) {
    return { ok: true, values: count(bounds.from, bounds.to, 1), open: isWild };
  }
  if (base === "?") return refuse(field, `"?" takes no step, found "${item}"`, `write */${stepText}`);
  if (!isWild && !base.includes("-")) {
    const { max } = RANGES[field];
    const hint = base === "" ? `write */${stepText}` : `write ${base}-${field === "day of week" ? 6 : max}/${stepText}`;
    return refuse(field, `a step needs a range or * before it, found "${item}"`, hint);
  }
  const step = parseStep(field, stepText, item);
  return step.ok ? { ok: true, values: count(bounds.from, bounds.to, step.value), open: true } : step;
}

function parseBounds(field: Field, base: string, item: string): Parsed<{ readonly from: number; readonly to: number }> {
  const range = RANGES[field];
  // `*` of the weekdays is 0 to 6, so that a step never meets Sunday twice.
  if (base === "*") return { ok: true, from: range.min, to: range.min + range.size - 1 };
  if (base === "?") {
    if (field !== "day of month" && field !== "day of week") {
      return refuse(field, `"?" is for day of month and day of week only`, "write *");
    }
    return { ok: true, from: range.min, to: range.min + range.size - 1 };
  }
  if (base === "") return { ok: true, from: range.min, to: range.max };
  const [fromText = "", toText, ...rest] = base.split("-");
  if (rest.length > 0) return refuse(field, `expected a range such as 1-5, found "${item}"`);
  const from = parseNumber(field, fromText, item);
  if (!from.ok) return from;
  if (toText === undefined) return { ok: true, from: from.value, to: from.value };
  const end = parseNumber(field, toText, item);
  if (!end.ok) return end;
  // A week may end on Sunday: FRI-SUN is 5-7.
  const to = field === "day of week" && /^sun$/i.test(toText) && from.value > 0 ? 7 : end.value;
  if (to < from.value) return refuseWrapped(field, item, from.value, to);
  return { ok: true, from: from.value, to };
}

function refuseWrapped(field: Field, item: string, from: number, to: number): CronProblem {
  const { min, max } = RANGES[field];
  const last = field === "day of week" ? 6 : max;
  const head = from > last ? "" : from === last ? `${from},` : `${from}-${last},`;
  const tail = to === min ? `${to}` : `${min}-${to}`;
  const hint = item.includes("/") ? "split it into two ranges" : `write ${head}${tail}`;
  return refuse(field, `the range "${item}" runs backwards`, hint);
}

function parseStep(field: Field, text: string, item: string): Parsed<{ readonly value: number }> {
  const { size } = RANGES[field];
  const value = /^\d{1,3}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 1 && value <= size) return { ok: true, value };
  const unit = INTERVAL_UNITS[field];
  const hint = value > size && unit !== undefined ? `for a fixed interval write every: ${value}${unit}` : undefined;
  return refuse(field, `expected a step from 1 to ${size}, found "${text}" in "${item}"`, hint);
}

/** A number or a three-letter name of the field. */
function parseNumber(field: Field, text: string, item: string): Parsed<{ readonly value: number }> {
  const { min, max, names, describe } = RANGES[field];
  const value = /^\d{1,2}$/.test(text) ? Number(text) : min + names.indexOf(text.toUpperCase());
  if (value >= min && value <= max) return { ok: true, value };
  const within = text === item ? "" : ` in "${item}"`;
  const short = names.find((name) => text.length > 3 && text.toUpperCase().startsWith(name));
  return refuse(
    field,
    `expected ${describe}, found "${text}"${within}`,
    short === undefined ? undefined : `write ${short}`,
  );
}

/** Days match by either of their fields when both are restricted; `*`, `?` and a step of 1 restrict nothing. */
function isUnrestricted(text: string): boolean {
  return text === "*" || text === "?" || /^\*\/0?0?1$/.test(text);
}

function count(from: number, to: number, step: number): readonly number[] {
  const values: number[] = [];
  for (let value = from; value <= to; value += step) values.push(value);
  return values;
}

function sorted(values: ReadonlySet<number>): readonly number[] {
  return [...values].sort((left, right) => left - right);
}

function refuse(field: string, message: string, hint?: string): CronProblem {
  return { ok: false, field, message, ...(hint === undefined ? {} : { hint }) };
}
