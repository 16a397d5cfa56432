import { createHash } from "node:crypto";
import type { CalendarSpec, DeclaredObject, ProjectObject, ScheduleSpec, Timing } from "../config/objects.ts";
import { unreachable } from "../core/assert.ts";
import { formatDuration } from "../core/duration.ts";
import { canonicalJson, type Json, type JsonObject } from "../core/json.ts";
import type { CalendarDays } from "../time/calendar.ts";

const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/**
 * An object as its author writes it, defaults included: `timeoutMs: 600000` is `timeout: 10m` again, and a timing is
 * one of `cron`, `every` and `at`. Plans compare this form, so that their paths are those of the files.
 */
export function toDeclaredFields(object: ProjectObject | DeclaredObject): JsonObject {
  const metadata = describeMetadata(object);
  switch (object.kind) {
    case "Schedule":
      return { ...withPreviousNames(metadata, object.spec), spec: describeSchedule(object.spec) };
    case "Calendar":
      return { ...metadata, spec: describeCalendar(object.spec) };
    case "Job": {
      // What a handler gets and what it accepts is the author's own text: nothing in it is a unit of Turno's.
      const { payloadSchema, settings, ...rest } = object.spec;
      const payload = payloadSchema === null ? {} : { payload: payloadSchema };
      return { ...metadata, spec: { ...describeUnits(rest), settings, ...payload } };
    }
    case "Project":
    case "Queue":
    case "Policy":
      return { ...metadata, spec: describeUnits(object.spec) };
    default:
      return unreachable(object);
  }
}

function describeMetadata({ labels, description }: ProjectObject | DeclaredObject): JsonObject {
  const metadata = {
    ...(Object.keys(labels).length === 0 ? {} : { labels }),
    ...(description === null ? {} : { description }),
  };
  return Object.keys(metadata).length === 0 ? {} : { metadata };
}

function withPreviousNames(fields: JsonObject, { previousNames }: ScheduleSpec): JsonObject {
  if (previousNames === undefined) return fields;
  return { metadata: { ...(fields.metadata as JsonObject | undefined), previousNames } };
}

function describeSchedule(spec: ScheduleSpec): JsonObject {
  const { timing, payload, previousNames, ...rest } = spec;
  return { ...describeUnits(rest), ...describeTiming(timing), ...describeLimits(timing), payload };
}

function describeCalendar({ dates, ranges, weekdays, appliesTo, ...rest }: CalendarSpec): JsonObject {
  return {
    ...describeUnits(rest),
    dates,
    ranges: ranges.map((range) => describeUnits(range)),
    weekdays: weekdays.map((day) => WEEKDAYS[day] ?? ""),
    ...(appliesTo === null ? {} : { appliesTo: { labels: appliesTo.labels } }),
  };
}

/** A calendar is named with a mark of its days: when they change, so do the fires of every schedule that uses it. */
function describeLimits({ calendars, jitter }: Timing): JsonObject {
  const mark = ({ name, ...days }: CalendarDays): string =>
    `${name} (${createHash("sha256")
      .update(canonicalJson(days as unknown as Json))
      .digest("hex")
      .slice(0, 8)})`;
  const named = (side: "include" | "exclude"): JsonObject =>
    calendars === undefined || calendars[side].length === 0 ? {} : { [side]: calendars[side].map(mark) };
  return {
    ...(calendars === undefined ? {} : { calendars: { ...named("include"), ...named("exclude") } }),
    ...(jitter === undefined ? {} : { jitter: { max: formatDuration(jitter.maxMs), mode: jitter.mode } }),
  };
}

function describeTiming(timing: Timing): JsonObject {
  switch (timing.kind) {
    case "cron":
      return {
        cron: timing.others === undefined ? timing.expression : [timing.expression, ...timing.others],
        ...(timing.dst === undefined ? {} : { dst: { ...timing.dst } }),
      };
    case "every": {
      const interval = formatDuration(timing.intervalMs);
      return { every: timing.from === "epoch" ? interval : { interval, from: timing.from } };
    }
    case "at":
      return { at: timing.at };
    default:
      return unreachable(timing);
  }
}

/** Members that end in `Ms` as durations, at every depth; null members are left out. */
function describeUnits(value: object): JsonObject {
  const fields: Record<string, Json> = {};
  for (const [key, member] of Object.entries(value)) {
    if (member === null || member === undefined) continue;
    if (key.endsWith("Ms") && typeof member === "number") fields[key.slice(0, -2)] = formatDuration(member);
    else if (Array.isArray(member)) fields[key] = member.map((item) => (isRecord(item) ? describeUnits(item) : item));
    else fields[key] = isRecord(member) ? describeUnits(member) : member;
  }
  return fields;
}

function isRecord(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
