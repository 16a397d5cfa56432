import { printable } from "../core/printable.ts";

/** Rows as aligned columns under a heading; the last column is not padded. Empty: the sentence given for it. */
export function formatTable(options: {
  readonly headings: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly empty: string;
}): string {
  if (options.rows.length === 0) return `${options.empty}\n`;
  const lines = [options.headings, ...options.rows].map((line) => line.map(printable));
  const widths = options.headings.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? "").length)));
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, column) => (column === line.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

/** `2026-12-01T08:00:00.000Z` → `2026-12-01 08:00:00Z`; null → a dash. */
export function shortInstant(instant: string | null): string {
  return instant === null ? "-" : instant.replace("T", " ").replace(/\.\d+Z$/, "Z");
}
