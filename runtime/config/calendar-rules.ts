import { posix } from "node:path";
import { describeError } from "../core/errors.ts";
import type { CalendarRange } from "../time/calendar.ts";
import { parseInstant } from "../time/next-fire.ts";
import { formatWallTime } from "../time/time-zone.ts";
import { MAX_CALENDAR_ENTRIES, readCalendarFile } from "./calendar-file.ts";
import { type CheckedDocument, type ProblemAt, problemAt } from "./documents.ts";
import { normalizeCalendar } from "./normalize.ts";
import type { CalendarObject } from "./objects.ts";
import type { Path, Problem } from "./problems.ts";

const DAY_MS = 86_400_000;
/** A calendar that ends within this long is told about. */
export const CALENDAR_NOTICE_DAYS = 30;
const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

type Spec = NonNullable<CheckedDocument<"Calendar">["valid"]>["document"]["spec"];

/** What the schema cannot say of a calendar, its file read in; null when the calendar has an error. */
export function readCalendar(
  checked: CheckedDocument<"Calendar">,
  context: {
    readonly files: ReadonlyMap<string, Uint8Array | string>;
    readonly today: string | null;
    readonly problems: Problem[];
  },
): CalendarObject | null {
  const { files, today, problems } = context;
  const { valid, envelope } = checked;
  if (valid === null) return null;
  const { spec } = valid.document;
  const found: ProblemAt[] = [...checkDates(spec)];
  const ranges = spec.ranges.flatMap((range, index) => {
    const read = readRange(range);
    if ("from" in read) return [read];
    found.push({ code: "TURNO_TIME_INVALID", path: ["spec", "ranges", index], message: read.problem });
    return [];
  });
  const imported = spec.ics === undefined ? NOTHING : importFile(spec, { file: envelope.source.file, files });
  found.push(...imported.problems);
  const entries = spec.dates.length + ranges.length + imported.dates.length + imported.ranges.length;
  if (entries > MAX_CALENDAR_ENTRIES) {
    const message = `expected at most ${MAX_CALENDAR_ENTRIES} days in a calendar, found ${entries}`;
    found.push({ code: "TURNO_CONFIG_LIMIT", path: ["spec"], message });
  }
  problems.push(...found.map((problem) => problemAt(envelope.source, problem)));
  if (found.length > 0) return null;
  const ending = spec.validUntil === undefined || today === null ? null : describeEnd(spec.validUntil, today);
  if (ending !== null) {
    const message = `the calendar ${valid.name} ${ending}`;
    const at = { code: "TURNO_CALENDAR_ENDS", path: ["spec", "validUntil"], message, severity: "warning" } as const;
    problems.push(problemAt(envelope.source, at));
  }
  const weekdays = spec.weekdays.map((day) => WEEKDAYS.indexOf(day));
  return normalizeCalendar(valid, {
    dates: [...new Set([...spec.dates, ...imported.dates])].sort(),
    ranges: [...ranges, ...imported.ranges],
    weekdays: [...new Set(weekdays)].sort(),
  });
}

/** What to say of a calendar that has run out or soon will; null: nothing. Both days as `2026-12-31`. */
export function describeEnd(validUntil: string, today: string): string | null {
  const days = Math.round((Date.parse(validUntil) - Date.parse(today)) / DAY_MS);
  if (days < 0) return `ran out on ${validUntil}: what it does not know it does not leave out`;
  if (days > CALENDAR_NOTICE_DAYS) return null;
  return `runs out on ${validUntil}, in ${days} ${days === 1 ? "day" : "days"}`;
}

interface Imported {
  readonly dates: readonly string[];
  readonly ranges: readonly CalendarRange[];
  readonly problems: readonly ProblemAt[];
}

const NOTHING: Imported = { dates: [], ranges: [], problems: [] };

function importFile(
  { ics = "", validUntil }: Spec,
  { file, files }: { readonly file: string; readonly files: ReadonlyMap<string, Uint8Array | string> },
): Imported {
  const path = posix.normalize(posix.join(posix.dirname(file), ics));
  const at = { code: "TURNO_CALENDAR_FILE", path: ["spec", "ics"] } as const;
  const content = files.get(path);
  if (content === undefined) {
    const message = `expected the calendar file in ${path}, found no such file in the project`;
    return { ...NOTHING, problems: [{ ...at, message, hint: "The path is relative to this file and ends in .ics." }] };
  }
  const text = typeof content === "string" ? content : new TextDecoder().decode(content);
  const { dates, ranges, problems } = readCalendarFile(text, validUntil ?? null);
  return { dates, ranges, problems: problems.map((problem) => ({ ...at, message: `${path}: ${problem}` })) };
}

function checkDates({ dates, validUntil }: Spec): readonly ProblemAt[] {
  const check = (text: string, path: Path): readonly ProblemAt[] =>
    isDate(text) ? [] : [{ code: "TURNO_TIME_INVALID", path, message: `expected a day that exists, found ${text}` }];
  return [
    ...dates.flatMap((date, index) => check(date, ["spec", "dates", index])),
    ...(validUntil === undefined ? [] : check(validUntil, ["spec", "validUntil"])),
  ];
}

/** A day alone is whole: as an end it belongs to the range. */
function readRange({
  from,
  to,
  reason = null,
}: {
  readonly from: string;
  readonly to: string;
  readonly reason?: string | null;
}): CalendarRange | { readonly problem: string } {
  try {
    const range = { from: readPoint(from, 0), until: readPoint(to, DAY_MS), reason };
    const sameKind = range.from.endsWith("Z") === range.until.endsWith("Z");
    if (!sameKind) return { problem: "expected from and to both with an offset, or both without" };
    return range.from < range.until ? range : { problem: `expected an end after ${from}, found ${to}` };
  } catch (error) {
    return { problem: describeError(error) };
  }
}

function readPoint(text: string, dayMs: number): string {
  if (!text.includes("T")) {
    if (!isDate(text)) throw new Error(`expected a day that exists, found ${text}`);
    return formatWallTime(Date.parse(`${text}T00:00:00Z`) + dayMs);
  }
  const isInstant = /(Z|[+-]\d\d:\d\d)$/.test(text);
  const local = isInstant ? text.replace(/(Z|[+-]\d\d:\d\d)$/, "") : text;
  const seconds = /T\d\d:\d\d$/.test(local) ? `${local}:00` : local;
  const offset = isInstant ? text.slice(local.length) : "Z";
  const instant = parseInstant(`${seconds}${offset}`);
  return isInstant ? instant.toISOString() : formatWallTime(instant.getTime());
}

function isDate(text: string): boolean {
  const day = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text);
}
