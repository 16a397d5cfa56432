import { describe, expect, test } from "vitest";
import { type CronExpression, parseCron } from "../../runtime/time/cron.ts";

function parse(expression: string): CronExpression {
  const parsed = parseCron(expression);
  if (!parsed.ok) throw new Error(`${parsed.field}: ${parsed.message}`);
  return parsed.cron;
}

/** [expression, field, part of the message, part of the hint] */
const REFUSED: readonly (readonly [string, string, string, string?])[] = [
  ["", "expression", "found nothing"],
  ["   ", "expression", "found nothing"],
  ["* * * *", "expression", "found 4"],
  ["0 0 0 1 1 * 2030", "expression", "found 7", "no field for years"],
  ["1 2 3 4 5 6 7 8", "expression", "found 8"],
  [`${"1,".repeat(200)}1 * * * *`, "expression", "at most 256 characters, found 409"],
  ["0\u00a00 * * * *", "expression", "U+00A0"],
  ["0 0\n* * *", "expression", "U+000A"],
  ["60 * * * *", "minute", 'from 0 to 59, found "60"'],
  ["60 0 * * * *", "second", 'from 0 to 59, found "60"'],
  ["0 24 * * *", "hour", 'from 0 to 23, found "24"'],
  ["* * 32 * *", "day of month", 'from 1 to 31, found "32"'],
  ["* * 0 * *", "day of month", 'from 1 to 31, found "0"'],
  ["* * * 13 *", "month", "from 1 to 12"],
  ["* * * 0 *", "month", "from 1 to 12"],
  ["* * * * 8", "day of week", "from 0 to 7"],
  ["-1 * * * *", "minute", 'found ""'],
  ["1.5 * * * *", "minute", 'found "1.5"'],
  ["5-70 * * * *", "minute", 'found "70" in "5-70"'],
  ["1-2-3 * * * *", "minute", "a range such as 1-5"],
  ["0 19-7 * * 1-5", "hour", "runs backwards", "19-23,0-7"],
  ["0 0 * * FRI-MON", "day of week", "runs backwards", "5-6,0-1"],
  ["0 0 * * 7-2", "day of week", "runs backwards", "0-2"],
  ["0 23-0 * * *", "hour", "runs backwards", "23,0"],
  ["0 1/3 * * *", "hour", "needs a range or *", "1-23/3"],
  ["5/15 * * * *", "minute", "needs a range or *", "5-59/15"],
  ["/5 * * * *", "minute", "needs a range or *", "*/5"],
  ["0 9 * * 2/2", "day of week", "needs a range or *", "2-6/2"],
  ["*/90 * * * *", "minute", 'a step from 1 to 60, found "90"', "every: 90m"],
  ["*/0 * * * *", "minute", 'a step from 1 to 60, found "0"'],
  ["*/-5 * * * *", "minute", "a step from 1 to 60"],
  ["*/ * * * *", "minute", 'found ""'],
  ["*/5/5 * * * *", "minute", "more than one /"],
  ["0 22, 10 * * *", "hour", "a space stands in the list", "22,10"],
  ["0 22 ,10 * * *", "hour", "a space stands in the list", "22,10"],
  ["0 0 * * MON, FRI", "day of week", "a space stands in the list", "MON,FRI"],
  ["0 0 0 * * 1 , 2", "day of week", "a space stands in the list", "1,2"],
  ["1,,2 * * * *", "minute", "a value is missing"],
  ["1, * * * * *", "minute", "a space stands in the list"],
  ["1, * * * *", "minute", "a space stands in the list"],
  ["0 1,* * * *", "hour", "stands alone"],
  ["? * * * *", "minute", '"?" is for day of month and day of week only'],
  ["0 0 ?/2 * *", "day of month", "takes no step"],
  ["0 0 L-3 * *", "day of month", "days before the last one"],
  ["0 0 15,LW * *", "day of month", '"LW" stands alone'],
  ["0 0 32W * *", "day of month", "from 1 to 31"],
  ["0 0 W * *", "day of month", 'found "W"'],
  ["0 0 * L *", "month", 'found "L"'],
  ["0 0 * * L", "day of week", "names no weekday", "SATL"],
  ["0 0 * * 5#6", "day of week", "from 1 to 5 after #"],
  ["0 0 * * 5#", "day of week", "from 1 to 5 after #"],
  ["0 0 * * FRI#L", "day of week", "not understood", "FRIL"],
  ["0 0 * * 1#2#3", "day of week", "more than one #"],
  ["0 0 * * MONDAY", "day of week", 'found "MONDAY"', "MON"],
  ["0 0 * JANUARY *", "month", 'found "JANUARY"', "JAN"],
  ["0 0 * * constructor", "day of week", 'found "constructor"'],
  ["H 5 * * 3", "minute", "H is hashed from a schedule's name, and there is none here", "a number"],
  ["H/15 * * * *", "minute", "there is none here"],
  ["0 H(0-7) * * *", "hour", "there is none here"],
  ["0 0 1,H * *", "day of month", "there is none here"],
  ["@every 24h", "expression", '"@every 24h" is not a cron expression', "every: 24h"],
  ["@reboot", "expression", "not an instant", "runOnStart: true"],
  ["@fortnightly", "expression", "expected one of @hourly"],
  ["@constructor", "expression", "expected one of @hourly"],
  ["hourly", "expression", 'found "hourly"', "@hourly"],
  ["@daily 5", "expression", "expected one of @hourly"],
  ["2026-02-30T00:00:00", "expression", "found 1"],
];

describe("a cron expression", () => {
  const refused = REFUSED.map(([expression, field, message, hint]) => ({ expression, field, message, hint }));

  test.each(refused)("$expression is refused in the $field", ({ expression, field, message, hint }) => {
    const parsed = parseCron(expression);
    expect(parsed).toMatchObject({ ok: false, field, message: expect.stringContaining(message) });
    if (hint !== undefined) expect(parsed).toMatchObject({ hint: expect.stringContaining(hint) });
  });

  test("has minutes first with 5 fields and seconds first with 6", () => {
    expect(parse("7 8 * * *")).toMatchObject({ seconds: [0], minutes: [7], hours: [8] });
    expect(parse("6 7 8 * * *")).toMatchObject({ seconds: [6], minutes: [7], hours: [8] });
  });

  test("takes lists, ranges and steps in any mixture, sorted and without duplicates", () => {
    expect(parse("50-59/3,10,5-7,6 * * * *").minutes).toEqual([5, 6, 7, 10, 50, 53, 56, 59]);
  });

  test("takes names in any case, leading zeros and spaces around it", () => {
    expect(parse("  00 08 * jan-Mar,DEC mon \n")).toMatchObject({
      source: "00 08 * jan-Mar,DEC mon",
      minutes: [0],
      hours: [8],
      months: [1, 2, 3, 12],
      dayOfWeek: { weekdays: [1] },
    });
  });

  test("takes 0 and 7 for Sunday, and a range may end on it", () => {
    expect(parse("0 0 * * 0").dayOfWeek.weekdays).toEqual([0]);
    expect(parse("0 0 * * 7").dayOfWeek.weekdays).toEqual([0]);
    expect(parse("0 0 * * 6-7").dayOfWeek.weekdays).toEqual([0, 6]);
    expect(parse("0 0 * * FRI-SUN").dayOfWeek.weekdays).toEqual([0, 5, 6]);
    expect(parse("0 0 * * SUN-TUE").dayOfWeek.weekdays).toEqual([0, 1, 2]);
    expect(parse("0 0 * * SUN-SUN").dayOfWeek.weekdays).toEqual([0]);
  });

  test("takes L, LW and 15W as days of the month, FRIL and FRI#2 as days of the week", () => {
    expect(parse("0 0 L,15W * *").dayOfMonth).toMatchObject({ days: [], last: true, nearestWeekdays: [15] });
    expect(parse("0 0 lw * *").dayOfMonth).toMatchObject({ last: false, lastWeekday: true });
    expect(parse("0 0 * * 5L,7#2").dayOfWeek).toMatchObject({ last: [5], nth: [{ weekday: 0, nth: 2 }] });
  });

  test("restricts days by anything but *, ? and a step of 1", () => {
    for (const free of ["*", "?", "*/1"]) expect(parse(`0 0 ${free} * 1`).dayOfMonth.restricted).toBe(false);
    for (const bound of ["1", "1-31", "*/2", "L"]) expect(parse(`0 0 ${bound} * 1`).dayOfMonth.restricted).toBe(true);
  });

  test("is open with * or a step in the hour or the minute, and fixed otherwise", () => {
    for (const open of ["* 2 * * *", "0 * * * *", "*/5 2 * * *", "0 2-23/24 * * *"]) {
      expect(parse(open).open).toBe(true);
    }
    for (const fixed of ["0 2,14 * * *", "10-12 2 * * *", "* 30 2 * * *", "0 2 */2 * *"]) {
      expect(parse(fixed).open).toBe(false);
    }
  });

  test.each([
    ["@hourly", "0 * * * *"],
    ["@daily", "0 0 * * *"],
    ["@midnight", "0 0 * * *"],
    ["@weekly", "0 0 * * 0"],
    ["@monthly", "0 0 1 * *"],
    ["@yearly", "0 0 1 1 *"],
    ["@annually", "0 0 1 1 *"],
    ["@Daily", "0 0 * * *"],
  ])("%s means %s", (macro, meaning) => {
    expect(parse(macro)).toEqual({ ...parse(meaning), source: macro });
  });
});
