import { describe, expect, test } from "vitest";
import type { Timing } from "../../runtime/time/timing.ts";
import { hashTiming } from "../../runtime/time/timing-hash.ts";

describe("the hash of a timing", () => {
  const cron: Timing = { kind: "cron", expression: "0 2 * * *", timeZone: "Europe/Berlin" };

  test("stays over versions of Turno: the next fires in the database hang on it", () => {
    expect(hashTiming(cron)).toBe("sha256:b90f7b9be722850ee5c44a8c967480d178020b346d064793700e6a95c46d4631");
    expect(hashTiming({ kind: "every", intervalMs: 300_000, from: "epoch" })).toBe(
      "sha256:878fe2e82326f958ff7d5c4ec0a8c434834e6751c724807061c311a13ec8f447",
    );
    expect(hashTiming({ kind: "at", at: "2026-06-01T12:00:00Z" })).toBe(
      "sha256:43b849a5d902fa1dd41c74c5155287113e5c7752850608321cc72da67eab2f16",
    );
  });

  test("stays when only the order of fields or the spaces of the expression change", () => {
    expect(hashTiming({ timeZone: "Europe/Berlin", expression: " 0  2 * *\t* ", kind: "cron" })).toBe(hashTiming(cron));
  });

  test("changes with the expression, the zone, the interval and its anchor", () => {
    const hashes = [
      cron,
      { ...cron, expression: "0 3 * * *" },
      { ...cron, timeZone: "UTC" },
      { kind: "every", intervalMs: 300_000, from: "epoch" },
      { kind: "every", intervalMs: 300_000, from: "finish" },
      { kind: "every", intervalMs: 300_001, from: "epoch" },
      { kind: "at", at: "2026-06-01T12:00:00Z" },
    ].map((timing) => hashTiming(timing as Timing));
    expect(new Set(hashes).size).toBe(hashes.length);
  });
});
