import type { CronExpression, CronProblem } from "./cron-expression.ts";
import { parseDayOfMonth, parseDayOfWeek, parseNumbers } from "./cron-fields.ts";
import { writeOutHashes } from "./hashed-field.ts";

export type { CronExpression, CronProblem } from "./cron-expression.ts";

/** The longest expression that is looked at; the longest ones in use have some 60 characters. */
export const MAX_CRON_LENGTH = 256;

export type CronParseResult = { readonly ok: true; readonly cron: CronExpression } | CronProblem;

const MACROS: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};
const FIELD_NAMES = ["second", "minute", "hour", "day of month", "month", "day of week"] as const;
const SPACE_AROUND_COMMA = /[ \t]+,|,[ \t]+/;

/**
 * Reads a cron expression of 5 or 6 fields (seconds first when 6) or a macro, wholly or not at all. `seed` is what `H`
 * is hashed from, the schedule's name; without one, `H` is refused.
 */
export function parseCron(expression: string, seed?: string): CronParseResult {
  if (expression.length > MAX_CRON_LENGTH) {
    return refuse(`expected at most ${MAX_CRON_LENGTH} characters, found ${expression.length}`);
  }
  const source = expression.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");
  if (source === "") return refuse("expected 5 or 6 fields, found nothing", "for example 0 2 * * * (02:00 every day)");
  const strange = /[^\t\x20-\x7e]/u.exec(source)?.[0];
  if (strange !== undefined) return refuse(`found the character ${describeCharacter(strange)} in the expression`);
  if (source.startsWith("@")) return parseMacro(source);

  const spaced = findSpacedList(source);
  if (spaced !== null) return spaced;
  const texts = source.split(/[ \t]+/);
  if (Object.hasOwn(MACROS, `@${source.toLowerCase()}`)) {
    return refuse(`expected 5 or 6 fields, found "${source}"`, `write @${source.toLowerCase()}`);
  }
  if (texts.length < 5 || texts.length > 6) return refuseFieldCount(texts.length);
  const written: string[] = [];
  for (const [index, text] of (texts.length === 5 ? ["0", ...texts] : texts).entries()) {
    const field = writeOutHashes(FIELD_NAMES[index] ?? "expression", text, seed);
    if (!field.ok) return field;
    written.push(field.text);
  }
  return parseFields(source, written);
}

/** Whether an expression holds an `H`, and so needs a name to be hashed from. */
export function needsSeed(expression: string): boolean {
  return /(^|[\s,])h(?:$|[\s,/(])/i.test(expression);
}

function parseMacro(source: string): CronParseResult {
  const name = source.toLowerCase();
  const meaning = Object.hasOwn(MACROS, name) ? MACROS[name] : undefined;
  if (meaning !== undefined) return parseFields(source, ["0", ...meaning.split(" ")]);
  const known = Object.keys(MACROS).join(", ");
  if (/^@every\b/.test(name)) {
    return refuse(`"${source}" is not a cron expression`, "write every: 24h in place of cron for a fixed interval");
  }
  if (name === "@reboot") {
    return refuse(`"${source}" is not an instant`, "write runOnStart: true for a run at the start of the installation");
  }
  return refuse(`expected one of ${known}, found "${source}"`);
}

function parseFields(source: string, texts: readonly string[]): CronParseResult {
  const [secondText = "", minuteText = "", hourText = "", dayText = "", monthText = "", weekdayText = ""] = texts;
  const second = parseNumbers("second", secondText);
  if (!second.ok) return second;
  const minute = parseNumbers("minute", minuteText);
  if (!minute.ok) return minute;
  const hour = parseNumbers("hour", hourText);
  if (!hour.ok) return hour;
  const dayOfMonth = parseDayOfMonth(dayText);
  if (!dayOfMonth.ok) return dayOfMonth;
  const month = parseNumbers("month", monthText);
  if (!month.ok) return month;
  const dayOfWeek = parseDayOfWeek(weekdayText);
  if (!dayOfWeek.ok) return dayOfWeek;
  return {
    ok: true,
    cron: {
      source,
      seconds: second.values,
      minutes: minute.values,
      hours: hour.values,
      dayOfMonth: dayOfMonth.rule,
      months: month.values,
      dayOfWeek: dayOfWeek.rule,
      open: minute.open || hour.open,
    },
  };
}

/** `0 22, 10 * * *` would count as six fields and become another schedule: found before fields are counted. */
function findSpacedList(source: string): CronProblem | null {
  if (!SPACE_AROUND_COMMA.test(source)) return null;
  const joined = source.replace(/[ \t]*,[ \t]*/g, ",").split(/[ \t]+/);
  const names = joined.length <= 5 ? FIELD_NAMES.slice(1) : FIELD_NAMES;
  const before = source.slice(0, source.search(SPACE_AROUND_COMMA));
  const index = before.replace(/[ \t]*,[ \t]*/g, ",").split(/[ \t]+/).length - 1;
  return {
    ok: false,
    field: names[index] ?? "expression",
    message: "a space stands in the list, and spaces separate fields",
    hint: `write ${joined[index] ?? ""}`,
  };
}

function refuseFieldCount(count: number): CronProblem {
  const message = `expected 5 or 6 fields, found ${count}`;
  if (count < 5)
    return refuse(message, "minute, hour, day of month, month, day of week; a sixth in front is the second");
  return refuse(message, "second, minute, hour, day of month, month, day of week; there is no field for years");
}

/** `U+00A0`: many of the characters that do not belong here are invisible. */
function describeCharacter(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function refuse(message: string, hint?: string): CronProblem {
  return { ok: false, field: "expression", message, ...(hint === undefined ? {} : { hint }) };
}
