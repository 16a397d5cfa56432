import type { ProjectObject, ScheduleObject } from "../config/objects.ts";
import { humanDuration } from "../core/duration.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import type { AppliedState } from "../protocol/ports/revisions.ts";
import { noteClockChanges } from "../time/clock-change-notes.ts";
import { countByCell, type FireLoad, measureLoad, type NamedFires } from "../time/fire-load.ts";
import {
  collectFires,
  type FireSet,
  hasForeseeableFires,
  instantText,
  noFires,
  type Stretch,
} from "../time/fire-set.ts";
import { calendarSkipsBetween, nextFire } from "../time/next-fire.ts";
import { findZoneSpan, formatLocal } from "../time/time-zone.ts";
import type { Timing } from "../time/timing.ts";
import type { Desired } from "./desired.ts";
import { compareFires, type FireChanges } from "./fire-pairing.ts";

export interface FireDiffLimits {
  /** Fires of one schedule that are counted; two weeks of every minute are fewer. */
  readonly eachSchedule: number;
  /** Fires of all schedules together; what is left over is named as not counted. */
  readonly together: number;
  /** Instants of one schedule that are listed one by one, of each kind. */
  readonly listed: number;
}

export const FIRE_DIFF_LIMITS: FireDiffLimits = { eachSchedule: 25_000, together: 500_000, listed: 100 };
/** Parts of the stretch in the load's chart. */
const CHART_CELLS = 56;

/** One schedule whose fires change or whose document does; the members are those of `turno plan --json`. */
export interface ScheduleFires {
  readonly name: string;
  readonly timeZone: string;
  /** How many fires lie in the stretch; null: they follow from the ends of runs. */
  readonly before: number | null;
  readonly after: number | null;
  /** UTC; the first of them, `counts` has all. */
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly moved: readonly { readonly from: string; readonly to: string }[];
  readonly counts: { readonly added: number; readonly removed: number; readonly moved: number };
  /** Null: the whole stretch was compared; otherwise up to where, since there were too many fires. */
  readonly comparedUntil: string | null;
  readonly notes: readonly string[];
}

/** How many fires there are a minute. */
export interface LoadSummary {
  readonly fires: number;
  /** The busiest minute; null without fires. */
  readonly peak: { readonly at: string; readonly fires: number } | null;
  /** Instants at which several schedules fire. */
  readonly sharedInstants: number;
  /** Fires by part of the stretch, for a chart. */
  readonly cells: readonly number[];
}

/** What an apply would do to the fires of the coming time. */
export interface FireDiff {
  /** After it, up to and with `to`. */
  readonly from: string;
  readonly to: string;
  readonly added: number;
  readonly removed: number;
  readonly moved: number;
  /** By name; those that stay as they are are left out. */
  readonly schedules: readonly ScheduleFires[];
  readonly load: { readonly before: LoadSummary; readonly after: LoadSummary };
  /** The instants with most schedules after the apply. */
  readonly collisions: readonly {
    readonly at: string;
    readonly schedules: number;
    readonly names: readonly string[];
  }[];
  /** Schedules that are left out of the load, since too many fires were counted before them. */
  readonly uncounted: number;
}

export interface FireDiffRequest {
  readonly desired: Desired;
  readonly applied: Pick<AppliedState, "objects" | "schedules">;
  readonly from: Date;
  readonly to: Date;
  readonly limits?: FireDiffLimits;
}

/**
 * Compares the fires of what is in force with those of the files, schedule by schedule and together. Pure, and bounded
 * however often a schedule fires: beyond the limits it says up to where it looked.
 */
export function diffFires(request: FireDiffRequest): FireDiff {
  const { desired, applied, from, to, limits = FIRE_DIFF_LIMITS } = request;
  const stretch = { after: from, until: to };
  const before = schedulesByName(applied.objects);
  const after = schedulesByName(desired.objects);
  const names = [...new Set([...before.keys(), ...after.keys()])].sort();
  // What changes is counted first: it is what the plan is about.
  const same = new Set(names.filter((name) => sameText(before.get(name), after.get(name))));
  const isSame = (name: string) => same.has(name);
  const ordered = [...names.filter((name) => !isSame(name)), ...names.filter(isSame)];

  const firesOf = createCounter(stretch);
  const loads = { before: [] as NamedFires[], after: [] as NamedFires[] };
  const schedules: ScheduleFires[] = [];
  let left = limits.together;
  let uncounted = 0;
  for (const name of ordered) {
    const old = before.get(name);
    const next = after.get(name);
    if (left <= 0) {
      uncounted += 1;
      continue;
    }
    const limit = Math.min(limits.eachSchedule, left);
    const afterFires = firesOf(next, limit);
    const beforeFires = isSame(name) || sameTiming(old, next) ? afterFires : firesOf(old, limit);
    left -= afterFires.fires.length + (beforeFires === afterFires ? 0 : beforeFires.fires.length);
    loads.before.push({ name, fires: beforeFires.fires });
    loads.after.push({ name, fires: afterFires.fires });
    if (isSame(name)) continue;
    schedules.push(describeSchedule({ name, old, next, beforeFires, afterFires, stretch, limits }));
  }

  const [loadBefore, loadAfter] = [measureLoad(loads.before), measureLoad(loads.after)];
  const total = (kind: keyof ScheduleFires["counts"]) => schedules.reduce((sum, { counts }) => sum + counts[kind], 0);
  return {
    from: instantText(from),
    to: instantText(to),
    added: total("added"),
    removed: total("removed"),
    moved: total("moved"),
    schedules,
    load: { before: summarizeLoad(loadBefore, stretch), after: summarizeLoad(loadAfter, stretch) },
    collisions: loadAfter.shared.map(({ at, ...shared }) => ({ at: instantText(at), ...shared })),
    uncounted,
  };
}

function schedulesByName(objects: readonly (ProjectObject | AppliedState["objects"][number])[]) {
  return new Map(objects.flatMap((object) => (object.kind === "Schedule" ? [[object.name, object] as const] : [])));
}

/** Counts fires, those of equal timings once: many schedules say `0 3 * * *`. Suspended ones don't fire. */
function createCounter(stretch: Stretch): (schedule: ScheduleObject | undefined, limit: number) => FireSet {
  const known = new Map<string, FireSet>();
  const none = noFires(stretch);
  return (schedule, limit) => {
    if (schedule === undefined || schedule.spec.suspend) return none;
    const key = `${limit} ${canonicalJson(schedule.spec.timing as unknown as Json)}`;
    const counted = known.get(key) ?? collectFires(schedule.spec.timing, stretch, limit);
    known.set(key, counted);
    return counted;
  };
}

/** The place in the files is no part of a schedule. */
function sameText(left: ScheduleObject | undefined, right: ScheduleObject | undefined): boolean {
  const text = (schedule: ScheduleObject | undefined) =>
    canonicalJson((schedule === undefined ? null : { ...schedule, file: "", line: 0 }) as unknown as Json);
  return text(left) === text(right);
}

function sameTiming(left: ScheduleObject | undefined, right: ScheduleObject | undefined): boolean {
  if (left === undefined || right === undefined || left.spec.suspend !== right.spec.suspend) return false;
  return canonicalJson(left.spec.timing as unknown as Json) === canonicalJson(right.spec.timing as unknown as Json);
}

function describeSchedule(context: {
  readonly name: string;
  readonly old: ScheduleObject | undefined;
  readonly next: ScheduleObject | undefined;
  readonly beforeFires: FireSet;
  readonly afterFires: FireSet;
  readonly stretch: Stretch;
  readonly limits: FireDiffLimits;
}): ScheduleFires {
  const { name, old, next, beforeFires, afterFires, stretch, limits } = context;
  const timeZone = (next ?? old)?.spec.timeZone ?? "UTC";
  const comparedUntil = Math.min(beforeFires.knownUntil, afterFires.knownUntil);
  const within = ({ fires }: FireSet) => fires.filter((at) => at <= comparedUntil);
  const changes: FireChanges =
    beforeFires === afterFires
      ? { kept: afterFires.fires.length, added: [], removed: [], moved: [] }
      : compareFires(within(beforeFires), within(afterFires), dayIn(timeZone));
  const isWhole = beforeFires.complete && afterFires.complete;
  return {
    name,
    timeZone,
    before: countOf(old, beforeFires),
    after: countOf(next, afterFires),
    added: changes.added.slice(0, limits.listed).map(instantText),
    removed: changes.removed.slice(0, limits.listed).map(instantText),
    moved: changes.moved
      .slice(0, limits.listed)
      .map(({ from, to }) => ({ from: instantText(from), to: instantText(to) })),
    counts: { added: changes.added.length, removed: changes.removed.length, moved: changes.moved.length },
    comparedUntil: isWhole ? null : instantText(comparedUntil),
    notes: noteSchedule(next, { afterFires, stretch, comparedUntil: isWhole ? null : comparedUntil }),
  };
}

function countOf(schedule: ScheduleObject | undefined, { fires }: FireSet): number | null {
  if (schedule !== undefined && !schedule.spec.suspend && !hasForeseeableFires(schedule.spec.timing)) return null;
  return fires.length;
}

function noteSchedule(
  schedule: ScheduleObject | undefined,
  context: { readonly afterFires: FireSet; readonly stretch: Stretch; readonly comparedUntil: number | null },
): readonly string[] {
  if (schedule === undefined) return ["is removed: fires no more"];
  const { timing, timeZone, suspend } = schedule.spec;
  if (suspend) return ["is suspended: does not fire"];
  if (timing.kind === "every" && timing.from === "finish") {
    return [`fires ${humanDuration(timing.intervalMs)} after the end of each run: its fires cannot be foreseen`];
  }
  const notes: string[] = [];
  const { afterFires, stretch, comparedUntil } = context;
  if (afterFires.fires.length === 0) {
    const next = nextFire(timing, stretch.until);
    notes.push(
      next === null ? "never fires" : `does not fire in this time; the next fire is ${formatLocal(next, timeZone)}`,
    );
  }
  if (comparedUntil !== null) {
    notes.push(`fires too often to be compared to the end: compared until ${instantText(comparedUntil)}`);
  }
  return [...notes, ...noteCalendars(timing, stretch), ...noteClockChanges(timing, timeZone, stretch)];
}

/** Instants that calendars leave out are counted up to this many. */
const COUNTED_SKIPS = 1_000;

/** `Calendar/feriados-br leaves out 2 fires, the first on 2026-12-25`. */
function noteCalendars(timing: Timing, { after, until }: Stretch): readonly string[] {
  const skips = calendarSkipsBetween(timing, { from: after, to: until, limit: COUNTED_SKIPS });
  const byCalendar = new Map<string | null, { count: number; first: Date }>();
  // They come newest first, so the last of each is its first.
  for (const { at, calendar } of skips) {
    byCalendar.set(calendar, { count: (byCalendar.get(calendar)?.count ?? 0) + 1, first: at });
  }
  return [...byCalendar].map(([calendar, { count, first }]) => {
    const who = calendar === null ? "its included calendars leave out" : `Calendar/${calendar} leaves out`;
    const amount = `${skips.length < COUNTED_SKIPS ? "" : "at least "}${count} ${count === 1 ? "fire" : "fires"}`;
    return `${who} ${amount}, the first at ${instantText(first)}`;
  });
}

/** The number of a day on the zone's clocks. */
function dayIn(timeZone: string): (instant: number) => string {
  return (instant) => String(Math.floor((instant + findZoneSpan(timeZone, instant).offset) / 86_400_000));
}

function summarizeLoad(load: FireLoad, { after, until }: Stretch): LoadSummary {
  const { peak } = load;
  return {
    fires: load.fires,
    peak: peak === null ? null : { at: instantText(peak.minute), fires: peak.fires },
    sharedInstants: load.sharedInstants,
    cells: countByCell(load, { from: after.getTime(), to: until.getTime(), cells: CHART_CELLS }),
  };
}
