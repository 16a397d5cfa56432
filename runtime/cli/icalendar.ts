import type { CalendarMonth } from "../time/fire-calendar.ts";

/** Schedules with more fires are no events that anybody wants in a calendar. */
const MOST_EVENTS = 1_000;

export interface CalendarExport {
  readonly text: string;
  /** Schedules that are left out, since they fire too often. */
  readonly leftOut: readonly string[];
}

/** The fires of months as an iCalendar (RFC 5545), an event of no length each. */
export function writeICalendar(
  months: readonly CalendarMonth[],
  options: { readonly now: Date; readonly version: string; readonly describe: (name: string) => string | null },
): CalendarExport {
  const bySchedule = new Map<string, number[]>();
  for (const { name, instants } of months.flatMap(({ days }) => days).flatMap(({ fires }) => fires)) {
    const known = bySchedule.get(name) ?? [];
    bySchedule.set(name, known);
    known.push(...instants);
  }
  const stamp = basicInstant(options.now.getTime());
  const lines = [
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    `PRODID:-//Turno//Turno ${options.version}//EN`,
    "CALSCALE:GREGORIAN",
  ];
  const leftOut: string[] = [];
  for (const [name, instants] of [...bySchedule].sort(([left], [right]) => (left < right ? -1 : 1))) {
    if (instants.length > MOST_EVENTS) {
      leftOut.push(name);
      continue;
    }
    const description = options.describe(name);
    for (const at of instants) {
      lines.push(
        "BEGIN:VEVENT",
        `UID:${name}-${basicInstant(at)}@turno`,
        `DTSTAMP:${stamp}`,
        `DTSTART:${basicInstant(at)}`,
        `SUMMARY:${escapeText(name)}`,
        ...(description === null ? [] : [`DESCRIPTION:${escapeText(description)}`]),
        "TRANSP:TRANSPARENT",
        "END:VEVENT",
      );
    }
  }
  lines.push("END:VCALENDAR");
  return { text: lines.map((line) => `${fold(line)}\r\n`).join(""), leftOut };
}

/** `20261224T060000Z`. */
function basicInstant(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;
}

function escapeText(text: string): string {
  return text.replaceAll(/[\\;,]/g, "\\$&").replaceAll(/\r?\n/g, "\\n");
}

/** At most 75 octets a line, never within a character. */
function fold(line: string): string {
  const parts: string[] = [];
  let part = "";
  for (const character of line) {
    if (Buffer.byteLength(part + character) > 74) {
      parts.push(part);
      part = "";
    }
    part += character;
  }
  return [...parts, part].join("\r\n ");
}
