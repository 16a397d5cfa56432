import { printable } from "../core/printable.ts";
import type { CalendarDay, CalendarMonth } from "../time/fire-calendar.ts";
import { drawBars } from "../time/fire-load.ts";
import { formatLocal } from "../time/time-zone.ts";

const WIDTH = 10;
const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS = [
  ...["January", "February", "March", "April", "May", "June"],
  ...["July", "August", "September", "October", "November", "December"],
];

/** A month for a terminal: weeks from Monday, two lines a day, and what is to be said below. */
export function renderMonth(month: CalendarMonth, timeZone: string): string {
  const [year = "", number = "1"] = month.month.split("-");
  const top = Math.max(...month.days.map(countFires));
  const lead = ((month.days[0]?.weekday ?? 1) + 6) % 7;
  const cells: (CalendarDay | null)[] = [...Array.from({ length: lead }, () => null), ...month.days];
  const lines = [
    `${MONTHS[Number(number) - 1]} ${year}  ${timeZone}`,
    WEEKDAYS.map((day) => day.padEnd(WIDTH))
      .join("")
      .trimEnd(),
  ];
  for (let start = 0; start < cells.length; start += 7) {
    const week = cells.slice(start, start + 7);
    lines.push(
      week
        .map((day) => headOf(day, top).padEnd(WIDTH))
        .join("")
        .trimEnd(),
    );
    lines.push(
      week
        .map((day) => firesOf(day, timeZone).padEnd(WIDTH))
        .join("")
        .trimEnd(),
    );
  }
  return `${[...lines, ...notesOf(month)].join("\n")}\n`;
}

export function countFires({ fires }: CalendarDay): number {
  return fires.reduce((sum, { instants }) => sum + instants.length, 0);
}

/** The day, a mark for clock changes and days left out, and a bar for its load. */
function headOf(day: CalendarDay | null, top: number): string {
  if (day === null) return "";
  const marks = `${day.clockChange === null ? "" : "!"}${day.leftOut.length === 0 ? "" : "×"}`;
  return `${Number(day.date.slice(8))}${marks} ${drawBars([countFires(day)], top)}`.trimEnd();
}

function firesOf(day: CalendarDay | null, timeZone: string): string {
  if (day === null) return "";
  const instants = day.fires.flatMap(({ instants: own }) => own).sort((left, right) => left - right);
  const [first] = instants;
  if (first === undefined) return "·";
  if (instants.length > 2) return `${instants.length} fires`;
  const clock = formatLocal(new Date(first), timeZone).slice(11, 16);
  return instants.length === 1 ? clock : `${clock} +1`;
}

function notesOf(month: CalendarMonth): readonly string[] {
  const changes = month.days.flatMap(({ date, clockChange }) =>
    clockChange === null ? [] : [`! ${date} clock change, ${clockChange}`],
  );
  const left = new Map<string, string[]>();
  for (const { date, leftOut } of month.days) {
    for (const name of leftOut) left.set(name, [...(left.get(name) ?? []), String(Number(date.slice(8)))]);
  }
  const leftOut = [...left].map(([name, days]) => `× left out by calendars: ${printable(name)} on ${days.join(", ")}`);
  const incomplete = month.incomplete.map(
    (name) => `  ${printable(name)} fires too often to be counted to the end of the month`,
  );
  const finish = month.unforeseeable.map((name) => `  ${printable(name)} fires when its runs end`);
  const notes = [...changes, ...leftOut, ...incomplete, ...finish];
  return notes.length === 0 ? [] : ["", ...notes];
}
