import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { firesBetween } from "../../runtime/time/next-fire.ts";

/** Expressions from public repositories with their next five fires around clock changes, computed by brute force. */
const rows = readFileSync(new URL("./cron-next.tsv", import.meta.url), "utf8")
  .split("\n")
  .slice(1)
  .filter((line) => line !== "")
  .map((line) => {
    const [expression = "", timeZone = "", from = "", fires = ""] = line.split("\t");
    return { expression, timeZone, from, fires: fires === "" ? [] : fires.split(",") };
  });

/**
 * The table was computed with tz 2025c. Since tz 2026b Morocco stays at UTC+0 from autumn 2026 on: where the runtime
 * knows, fixed times of that December come an hour later by UTC.
 */
const MOROCCO = { timeZone: "Africa/Casablanca", from: "2026-12-09T18:45:10Z", offset: offsetIn("Africa/Casablanca") };

function offsetIn(timeZone: string): string | undefined {
  return new Intl.DateTimeFormat("en", { timeZone, timeZoneName: "longOffset" })
    .formatToParts(new Date("2026-12-10T00:00:00Z"))
    .find(({ type }) => type === "timeZoneName")?.value;
}

function firesByTheRuntimesZones({ expression, timeZone, from, fires }: (typeof rows)[number]): readonly string[] {
  const hour = expression.split(" ")[1] ?? "";
  if (timeZone !== MOROCCO.timeZone || from !== MOROCCO.from || /[*/]/.test(hour)) return fires;
  if (MOROCCO.offset === "GMT+01:00") return fires;
  return fires.map((fire) => new Date(Date.parse(fire) + 3_600_000).toISOString().replace(".000Z", "Z"));
}

describe("the table of next fires", () => {
  test("has its rows", () => {
    expect(rows.length).toBe(583);
  });

  test.each(rows)("$expression in $timeZone after $from", (row) => {
    const { expression, timeZone, from } = row;
    const end = new Date("9999-01-01T00:00:00Z");
    const found = firesBetween({ kind: "cron", expression, timeZone }, new Date(from), end, 5);
    expect(found.map((fire) => fire.toISOString().replace(".000Z", "Z"))).toEqual(firesByTheRuntimesZones(row));
  });
});
