import { createHash } from "node:crypto";
import { canonicalJson, type Json, type JsonObject } from "../core/json.ts";
import type { CalendarDays, ScheduleCalendars } from "./calendar.ts";
import type { Timing } from "./timing.ts";

/**
 * Hash of everything that decides when a schedule fires, and of nothing else: as long as it stays, an edit leaves the
 * next fire untouched. Spaces and the order of cron expressions don't count, nor do the names of calendars and the
 * reasons in them. Kept in the database: a new field of a timing must not change the hash of timings without it.
 */
export function hashTiming(timing: Timing): string {
  const { calendars, ...rest } = timing;
  const fields: JsonObject = {
    ...(rest as unknown as JsonObject),
    ...(timing.kind === "cron" ? normalizeExpressions(timing) : {}),
    ...(calendars === undefined ? {} : { calendars: describeDays(calendars) }),
  };
  return `sha256:${createHash("sha256").update(canonicalJson(fields)).digest("hex")}`;
}

function normalizeExpressions(timing: Timing & { readonly kind: "cron" }): JsonObject {
  const [expression = "", ...others] = [timing.expression, ...(timing.others ?? [])]
    .map((text) => text.trim().replace(/\s+/g, " "))
    .sort();
  return others.length === 0 ? { expression } : { expression, others };
}

function describeDays({ timeZone, include, exclude }: ScheduleCalendars): JsonObject {
  const describe = (calendars: readonly CalendarDays[]): Json =>
    calendars
      .map(({ dates, ranges, weekdays }) => ({
        dates,
        ranges: ranges.map(({ from, until }) => ({ from, until })),
        weekdays,
      }))
      .map((days) => canonicalJson(days))
      .sort();
  return { timeZone, include: describe(include), exclude: describe(exclude) };
}
