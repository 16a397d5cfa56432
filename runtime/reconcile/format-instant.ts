import { formatLocal } from "../time/time-zone.ts";

/** An instant for people, on the wall clock of a zone: `2026-08-03 06:00-03:00 America/Sao_Paulo`, `2026-08-03 09:00 UTC`. */
export function formatInstant(at: Date, timeZone: string): string {
  const local = formatLocal(at, timeZone).replace("T", " ");
  // Seconds only where there are some.
  const short = local.replace(/(?<= \d\d:\d\d):00(?=[+-])/, "");
  return `${timeZone === "UTC" ? short.replace(/\+00:00$/, "") : short} ${timeZone}`;
}
