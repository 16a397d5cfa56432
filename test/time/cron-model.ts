import fc from "fast-check";
import type { CalendarDate, CronModel } from "./brute-force.ts";

/** Random cron schedules, made as text and as meaning side by side, so that no parser stands between the two. */

interface NumberModel {
  readonly text: string;
  readonly values: readonly number[];
  readonly open: boolean;
}

type DayModel = { readonly text: string; readonly test: ((date: CalendarDate) => boolean) | null };

const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

const every = (min: number, max: number, step = 1): number[] =>
  Array.from({ length: Math.floor((max - min) / step) + 1 }, (_, index) => min + index * step);

function numbers(min: number, max: number, wild: boolean): fc.Arbitrary<NumberModel> {
  const single = fc.integer({ min, max }).map((value) => ({ text: `${value}`, values: [value], open: false }));
  const range = fc
    .tuple(fc.integer({ min, max }), fc.integer({ min: 0, max: 6 }))
    .map(([from, length]) => [from, Math.min(max, from + length)] as const)
    .map(([from, to]) => ({ text: `${from}-${to}`, values: every(from, to), open: false }));
  const step = fc
    .tuple(fc.integer({ min, max }), fc.integer({ min: 1, max: max - min }), fc.boolean())
    .map(([from, by, star]) =>
      star
        ? { text: `*/${by}`, values: every(min, max, by), open: true }
        : { text: `${from}-${max}/${by}`, values: every(from, max, by), open: true },
    );
  const list = fc.array(fc.oneof(single, range, wild ? step : single), { minLength: 1, maxLength: 3 }).map((items) => ({
    text: items.map(({ text }) => text).join(","),
    values: items.flatMap(({ values }) => values),
    open: items.some(({ open }) => open),
  }));
  const star = fc.constant({ text: "*", values: every(min, max), open: true });
  return wild ? fc.oneof({ weight: 3, arbitrary: list }, { weight: 1, arbitrary: star }) : list;
}

const isWorkday = (date: CalendarDate, day: number): boolean => {
  const weekday = (date.firstWeekday + day - 1) % 7;
  return weekday !== 0 && weekday !== 6;
};

/** The Monday to Friday of the month nearest to the day; null when the month has no such day. */
function nearestWorkday(date: CalendarDate, day: number): number | null {
  if (day > date.lastDay) return null;
  const candidates = [day, day - 1, day + 1, day - 2, day + 2];
  return candidates.find((near) => near >= 1 && near <= date.lastDay && isWorkday(date, near)) ?? null;
}

const lastWorkday: DayModel = { text: "LW", test: (date) => date.day === nearestWorkday(date, date.lastDay) };

const dayOfMonth: fc.Arbitrary<DayModel> = fc.oneof(
  { weight: 1, arbitrary: fc.constant(lastWorkday) },
  {
    weight: 5,
    arbitrary: fc
      .array(
        fc.oneof<fc.Arbitrary<DayModel>[]>(
          numbers(1, 31, false).map(({ text, values }) => ({ text, test: (date) => values.includes(date.day) })),
          fc.constant({ text: "*/2", test: (date) => date.day % 2 === 1 }),
          fc.constant({ text: "L", test: (date) => date.day === date.lastDay }),
          fc
            .integer({ min: 1, max: 31 })
            .map((day) => ({ text: `${day}W`, test: (date) => date.day === nearestWorkday(date, day) })),
        ),
        { minLength: 1, maxLength: 2 },
      )
      .map(either),
  },
);

const weekdayText = (weekday: number): fc.Arbitrary<string> =>
  fc.constantFrom(
    `${weekday}`,
    `${weekday === 0 ? 7 : weekday}`,
    WEEKDAYS[weekday] ?? "",
    (WEEKDAYS[weekday] ?? "").toLowerCase(),
  );

const oneWeekday = fc
  .integer({ min: 0, max: 6 })
  .chain((weekday) => weekdayText(weekday).map((text) => ({ text, weekday })));

const dayOfWeek: fc.Arbitrary<DayModel> = fc
  .array(
    fc.oneof<fc.Arbitrary<DayModel>[]>(
      oneWeekday.map(({ text, weekday }) => ({ text, test: (date) => date.weekday === weekday })),
      oneWeekday.map(({ text, weekday }) => ({
        text: `${text}L`,
        test: (date) => date.weekday === weekday && date.day + 7 > date.lastDay,
      })),
      fc.tuple(oneWeekday, fc.integer({ min: 1, max: 5 })).map(([{ text, weekday }, nth]) => ({
        text: `${text}#${nth}`,
        test: (date) => date.weekday === weekday && Math.ceil(date.day / 7) === nth,
      })),
      fc
        .tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 0, max: 6 }))
        .map(([from, length]) => [from, Math.min(7, from + length)] as const)
        .map(([from, to]) => ({
          text: `${from}-${to}`,
          test: (date) => every(from, to).some((weekday) => weekday % 7 === date.weekday),
        })),
      fc.constant({ text: "FRI-SUN", test: (date) => [5, 6, 0].includes(date.weekday) }),
      fc.constant({ text: "*/3", test: (date) => [0, 3, 6].includes(date.weekday) }),
    ),
    { minLength: 1, maxLength: 2 },
  )
  .map(either);

function either(items: readonly DayModel[]): DayModel {
  return {
    text: items.map(({ text }) => text).join(","),
    test: (date) => items.some(({ test }) => test === null || test(date)),
  };
}

const anyDay: fc.Arbitrary<DayModel> = fc.constantFrom("*", "?", "*/1").map((text) => ({ text, test: null }));

const months: fc.Arbitrary<NumberModel> = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ text: "*", values: every(1, 12), open: true }) },
  { weight: 1, arbitrary: numbers(1, 12, true) },
  {
    weight: 1,
    arbitrary: fc
      .integer({ min: 1, max: 12 })
      .map((month) => ({ text: MONTHS[month - 1] ?? "", values: [month], open: false })),
  },
);

/** A schedule of 5 fields, of 6 with `seconds`, or of the days alone with `midnight`. */
export function cronModel(clock: "minutes" | "seconds" | "midnight"): fc.Arbitrary<CronModel> {
  const none: fc.Arbitrary<NumberModel> = fc.constant({ text: "", values: [0], open: false });
  const zero: fc.Arbitrary<NumberModel> = fc.constant({ text: "0", values: [0], open: false });
  const isMidnight = clock === "midnight";
  // Days match more often when one in two is not restricted; the hours in which clocks change come up often.
  const free = isMidnight ? 1 : 3;
  return fc
    .tuple(
      clock === "seconds" ? numbers(0, 59, true) : none,
      isMidnight ? zero : numbers(0, 59, true),
      isMidnight ? zero : fc.oneof(numbers(0, 23, true), numbers(0, 4, false)),
      fc.oneof({ weight: free, arbitrary: anyDay }, { weight: 1, arbitrary: dayOfMonth }),
      months,
      fc.oneof({ weight: free, arbitrary: anyDay }, { weight: 1, arbitrary: dayOfWeek }),
    )
    .map(([second, minute, hour, day, month, weekday]) => ({
      expression: [second, minute, hour, day, month, weekday]
        .map(({ text }) => text)
        .join(" ")
        .trim(),
      seconds: new Set(second.values),
      minutes: new Set(minute.values),
      hours: new Set(hour.values),
      months: new Set(month.values),
      dayOfMonth: day.test,
      dayOfWeek: weekday.test,
      open: minute.open || hour.open,
    }));
}
