import { TurnoError } from "../core/errors.ts";
import { BoundedCache } from "./bounded-cache.ts";

/** A stretch of time in which a zone's clocks run evenly. Instants and offsets in milliseconds. */
export interface ZoneSpan {
  /** The first instant of the stretch. */
  readonly from: number;
  /** The first instant after it. */
  readonly until: number;
  /** Local time minus UTC. */
  readonly offset: number;
  /** The offset just before `from`; smaller: clocks went forward (a gap), larger: back (a repeated stretch). */
  readonly previousOffset: number;
}

const DAY_MS = 86_400_000;
/** Far more than any clock change: the zones that crossed the date line moved by a day. */
export const CLOCK_CHANGE_REACH_MS = 2 * DAY_MS;
/** Every block knows the changes this long before and after it, so that repeated stretches don't end at its edge. */
const BLOCK_MARGIN_MS = CLOCK_CHANGE_REACH_MS + DAY_MS;
/** Changes of one zone are at least 7 days apart (all zones of tzdata since 1970); a smaller step finds each. */
const SAMPLE_STEP_MS = 3 * DAY_MS;
const BLOCK_MS = 366 * DAY_MS;

interface Zone {
  readonly format: Intl.DateTimeFormat;
  readonly blocks: BoundedCache<number, readonly ZoneSpan[]>;
}
const zones = new BoundedCache<string, Zone>(600);

const ZONE_NAME = /^[A-Za-z][A-Za-z0-9_+\-/]{0,99}$/;
const LOCAL_TEXT = /^(\d+)\/(\d+)\/(\d+), (\d+):(\d+):(\d+)$/;

/** Whether the name is a zone of the IANA database (`Europe/Berlin`, `UTC`) as this Node.js knows it. */
export function isTimeZone(name: string): boolean {
  if (!ZONE_NAME.test(name)) return false;
  try {
    loadZone(name);
    return true;
  } catch {
    return false;
  }
}

/** The stretch that holds the instant. Throws TURNO_TIME_INVALID for an unknown zone. */
export function findZoneSpan(timeZone: string, instant: number): ZoneSpan {
  const zone = loadZone(timeZone);
  const block = Math.floor(instant / BLOCK_MS);
  const spans = zone.blocks.getOrCompute(block, () => computeSpans(zone.format, block));
  const span = spans.find(({ until }) => instant < until);
  if (span === undefined) throw new TurnoError("TURNO_ASSERTION_FAILED", `no span of ${timeZone} holds ${instant}`);
  return span;
}

/** The first instant at which the zone's clocks show the wall time or a later one. */
export function findFirstInstant(timeZone: string, wall: number): number {
  let span = findZoneSpan(timeZone, wall - CLOCK_CHANGE_REACH_MS);
  for (;;) {
    const instant = Math.max(span.from, wall - span.offset);
    if (instant < span.until) return instant;
    span = findZoneSpan(timeZone, span.until);
  }
}

/** RFC 3339 in the zone: `2026-03-29T03:00:00+02:00`. */
export function formatLocal(at: Date, timeZone: string): string {
  const { offset } = findZoneSpan(timeZone, at.getTime());
  return `${formatWallTime(at.getTime() + offset)}${formatOffset(offset)}`;
}

/** Wall time, as milliseconds of a UTC clock that shows it, to `2026-03-29T03:00:00`. */
export function formatWallTime(wall: number): string {
  const text = new Date(wall).toISOString();
  return text.endsWith(".000Z") ? text.slice(0, -5) : text.slice(0, -1);
}

function formatOffset(offset: number): string {
  const minutes = Math.round(Math.abs(offset) / 60_000);
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${offset < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

function loadZone(name: string): Zone {
  return zones.getOrCompute(name, () => ({ format: createFormat(name), blocks: new BoundedCache(100) }));
}

function createFormat(name: string): Intl.DateTimeFormat {
  if (ZONE_NAME.test(name)) {
    try {
      return new Intl.DateTimeFormat("en-US", {
        timeZone: name,
        calendar: "gregory",
        numberingSystem: "latn",
        hourCycle: "h23",
        year: "numeric",
        month: "numeric",
        day: "numeric",
        hour: "numeric",
        minute: "numeric",
        second: "numeric",
      });
    } catch {
      // RangeError is how Intl says that it doesn't know the zone.
    }
  }
  throw new TurnoError(
    "TURNO_TIME_INVALID",
    `expected a time zone of the IANA database such as Europe/Berlin or UTC, found "${name.slice(0, 100)}"`,
  );
}

function computeSpans(format: Intl.DateTimeFormat, block: number): readonly ZoneSpan[] {
  const start = block * BLOCK_MS - BLOCK_MARGIN_MS;
  const end = (block + 1) * BLOCK_MS + BLOCK_MARGIN_MS;
  const spans: ZoneSpan[] = [];
  let offset = readOffset(format, start);
  let from = start;
  let previousOffset = offset;
  for (let at = start; at < end; at += SAMPLE_STEP_MS) {
    const next = Math.min(at + SAMPLE_STEP_MS, end);
    const nextOffset = readOffset(format, next);
    if (nextOffset === offset) continue;
    const change = findChange(format, { from: at, until: next, offset });
    spans.push({ from, until: change, offset, previousOffset });
    from = change;
    previousOffset = offset;
    offset = nextOffset;
  }
  spans.push({ from, until: end, offset, previousOffset });
  return spans;
}

/** The first whole second in (from, until] with another offset than the one at `from`. */
function findChange(
  format: Intl.DateTimeFormat,
  stretch: { readonly from: number; readonly until: number; readonly offset: number },
): number {
  let before = stretch.from / 1000;
  let after = stretch.until / 1000;
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (readOffset(format, middle * 1000) === stretch.offset) before = middle;
    else after = middle;
  }
  return after * 1000;
}

function readOffset(format: Intl.DateTimeFormat, instant: number): number {
  const match = LOCAL_TEXT.exec(format.format(instant));
  if (match === null) throw new TurnoError("TURNO_ASSERTION_FAILED", `Intl gave another format for ${instant}`);
  const [, month, day, year, hour, minute, second] = match.map(Number);
  const wall = Date.UTC(year ?? 0, (month ?? 1) - 1, day, hour, minute, second);
  return wall - instant;
}
