import type { Timing } from "../../runtime/config/objects.ts";
import { humanDuration } from "../../runtime/core/duration.ts";

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function wholeNumber(value: number): string {
  return WHOLE.format(value);
}

/** How long something took: `12 ms`, `1.8 s`, `2 m 14 s`. */
export function tookText(ms: number | null): string {
  if (ms === null) return "–";
  return ms < 1000 ? `${Math.round(ms)} ms` : humanDuration(ms);
}

/** How long something takes so far; counted on in the page by assets/panel.js. */
export function elapsedText(ms: number): string {
  if (ms < 1000) return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
  return ms < 10_000 ? `${Math.floor(ms / 1000)} s` : humanDuration(ms);
}

/** `18:20`, in UTC; pages show it in the reader's zone. */
export function minuteText(at: Date): string {
  return at.toISOString().slice(11, 16);
}

export function clockText(at: Date): string {
  return at.toISOString().slice(11, 19);
}

/** An instant in a schedule's own zone: `18:20:00`, `02:30 tomorrow`, `02:30 Mon`, `02:30 2026-10-25`. */
export function zonedText(at: Date, timeZone: string, now: Date): string {
  const time = zonedTime(at, timeZone);
  const day = zonedDay(at, timeZone);
  const days = Math.round((Date.parse(day) - Date.parse(zonedDay(now, timeZone))) / 86_400_000);
  if (days === 0) return time;
  if (days === 1) return `${time} tomorrow`;
  if (days > 1 && days < 7)
    return `${time} ${new Intl.DateTimeFormat("en", { timeZone, weekday: "short" }).format(at)}`;
  return `${time} ${day}`;
}

function zonedDay(at: Date, timeZone: string): string {
  return new Intl.DateTimeFormat("sv-SE", { timeZone, year: "numeric", month: "2-digit", day: "2-digit" }).format(at);
}

/** Seconds only where they say something. */
function zonedTime(at: Date, timeZone: string): string {
  const text = new Intl.DateTimeFormat("sv-SE", { timeZone, timeStyle: "medium" }).format(at);
  return text.endsWith(":00") ? text.slice(0, 5) : text;
}

export function timingText(timing: Timing): string {
  switch (timing.kind) {
    case "cron":
      return [timing.expression, ...(timing.others ?? [])].join(", ");
    case "every":
      return `every ${humanDuration(timing.intervalMs).replace(/\.0 s$/, " s")}`;
    case "at":
      return `at ${timing.at}`;
  }
}

/** `sha256:9b1f…c2` */
export function shortHash(hash: string): string {
  const [algorithm, digest] = hash.includes(":") ? hash.split(":") : ["", hash];
  if (digest === undefined || digest.length <= 12) return hash;
  return `${algorithm === "" ? "" : `${algorithm}:`}${digest.slice(0, 8)}…${digest.slice(-2)}`;
}

export function shortCommit(commit: string): string {
  return commit.slice(0, 7);
}
