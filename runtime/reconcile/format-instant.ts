/** An instant on the wall clock of a zone, to the second where it has one: `2026-08-03 06:00 America/Sao_Paulo`. */
export function formatInstant(at: Date, timeZone: string): string {
  const parts = new Map(
    new Intl.DateTimeFormat("en-CA", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    })
      .formatToParts(at)
      .map(({ type, value }) => [type, value]),
  );
  const second = parts.get("second");
  const time = `${parts.get("hour")}:${parts.get("minute")}${second === "00" ? "" : `:${second}`}`;
  return `${parts.get("year")}-${parts.get("month")}-${parts.get("day")} ${time} ${timeZone}`;
}
