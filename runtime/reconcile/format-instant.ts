import { formatLocal } from "../time/time-zone.ts";

/** An instant for people, on the wall clock of a zone: `2026-08-03 06:00-03:00 America/Sao_Paulo`. */
export function formatInstant(at: Date, timeZone: string): string {
  const local = formatLocal(at, timeZone).replace("T", " ");
  // Seconds only where there are some.
  return `${local.replace(/(?<= \d\d:\d\d):00(?=[+-]|Z|$)/, "")} ${timeZone}`;
}
