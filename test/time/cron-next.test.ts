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

describe("the table of next fires", () => {
  test("has its rows", () => {
    expect(rows.length).toBe(583);
  });

  test.each(rows)("$expression in $timeZone after $from", ({ expression, timeZone, from, fires }) => {
    const end = new Date("9999-01-01T00:00:00Z");
    const found = firesBetween({ kind: "cron", expression, timeZone }, new Date(from), end, 5);
    expect(found.map((fire) => fire.toISOString().replace(".000Z", "Z"))).toEqual(fires);
  });
});
