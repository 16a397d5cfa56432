import { unreachable } from "../core/assert.ts";
import { nextAllowed } from "./calendar.ts";
import { calendarSkipsBetween, nextFire, previousFire, waitsForFinish } from "./next-fire.ts";
import type { Timing } from "./timing.ts";

/** An instant this late still counts as on time: a change of leader takes that long at most. */
export const MISFIRE_GRACE_MS = 60_000;
/** Missed instants that `all` runs at most, where the schedule says nothing. */
export const DEFAULT_CATCHUP_RUNS = 50;

export type MisfirePolicy = "latest" | "none" | "all";

/** A schedule whose next fire has come. */
export interface DueTiming {
  readonly timing: Timing;
  readonly nextFireAt: Date;
  readonly misfirePolicy: MisfirePolicy;
  /** How late a missed instant may still run; null: for `latest` until the next one is due, for `all` without end. */
  readonly startingDeadlineMs?: number | null;
  /** For `all`; the newest ones run. */
  readonly maxCatchupRuns?: number;
  /** Up to here everything is decided: what a calendar left out before is not told again. Null: not known. */
  readonly decidedUntil?: Date | null;
}

/** Dropped by the policy or its deadline; a newer one runs in its place; or a calendar leaves it out. */
export type SkipReason = "missed" | "superseded" | "calendar";

/** An instant that is not run. */
export interface SkippedFire {
  readonly at: Date;
  readonly reason: SkipReason;
}

export interface DueLimits {
  /** Skips that are named, the newest ones. */
  readonly namedSkips: number;
  /** Skips of a cron schedule that are counted one by one before the count is given as inexact. */
  readonly countedSkips: number;
}

export const DUE_LIMITS: DueLimits = { namedSkips: 50, countedSkips: 1_000 };

/** What a scheduler cycle does with a due schedule. */
export interface DueDecision {
  /** Instants that run now, oldest first; more than one only under `all`. */
  readonly fires: readonly Date[];
  /** The newest skips, oldest first. */
  readonly skips: readonly SkippedFire[];
  /** All skips, the named ones included; a lower bound unless `skippedCountExact`. */
  readonly skippedCount: number;
  readonly skippedCountExact: boolean;
  /** Strictly after now. Null: never again, or, for an interval from the finish, not before the run has ended. */
  readonly nextFireAt: Date | null;
}

/**
 * Decides which due instants run. An instant is missed when a newer one is due too or when it is more than a minute
 * late. Under `latest` the newest runs, under `none` only when it is not missed, under `all` every one, the oldest
 * first. Takes bounded time however many instants have passed.
 */
export function decideDue(due: DueTiming, now: Date, limits: DueLimits = DUE_LIMITS): DueDecision {
  const { timing } = due;
  if (due.nextFireAt > now) {
    return { fires: [], skips: [], skippedCount: 0, skippedCountExact: true, nextFireAt: due.nextFireAt };
  }
  const held = holdBack(due, now);
  if (held !== null) return held;

  const { fires, oldest } = chooseFires(due, now);
  const reason = due.misfirePolicy === "latest" && fires.length > 0 ? "superseded" : "missed";
  const skips: SkippedFire[] = [];
  let last = oldest;
  if (fires.length === 0) skips.push({ at: oldest, reason });
  while (skips.length < limits.namedSkips) {
    const older = findOlderDue(due, last);
    if (older === null) break;
    skips.unshift({ at: older, reason });
    last = older;
  }
  const rest = countOlderDue(due, last, limits);
  const left = findLeftOut(due, now, limits);
  const named = [...skips, ...left].sort((one, other) => one.at.getTime() - other.at.getTime());
  return {
    fires,
    skips: named.slice(-limits.namedSkips),
    skippedCount: named.length + rest.count,
    skippedCountExact: rest.exact && left.length < limits.countedSkips,
    nextFireAt: waitsForFinish(timing) && fires.length > 0 ? null : nextFire(timing, now),
  };
}

/**
 * The first fire of a schedule that is new, whose timing changed or whose suspend was lifted: strictly after the
 * apply, so that an edit never fires a job and nothing before it is missed.
 */
export function firstFireAfterEdit(timing: Timing, appliedAt: Date): Date | null {
  return nextFire(timing, appliedAt);
}

/** An interval from the finish comes due wherever the run ended; a calendar then moves it to its own end. */
function holdBack({ timing, nextFireAt }: DueTiming, now: Date): DueDecision | null {
  if (!waitsForFinish(timing) || timing.calendars === undefined) return null;
  const allowed = nextAllowed(timing.calendars, now.getTime());
  if (allowed === now.getTime()) return null;
  return {
    fires: [],
    skips: [{ at: nextFireAt, reason: "calendar" }],
    skippedCount: 1,
    skippedCountExact: true,
    nextFireAt: allowed === null ? null : new Date(allowed),
  };
}

/** What runs, oldest first, and the oldest instant that was looked at: everything before it is skipped. */
function chooseFires(due: DueTiming, now: Date): { readonly fires: readonly Date[]; readonly oldest: Date } {
  const { misfirePolicy, startingDeadlineMs = null, maxCatchupRuns = DEFAULT_CATCHUP_RUNS } = due;
  const newest = findNewestDue(due, now);
  const lateMs = (at: Date): number => now.getTime() - at.getTime();
  const isWithin = (at: Date): boolean => startingDeadlineMs === null || lateMs(at) <= startingDeadlineMs;
  const isOnTime = lateMs(newest) <= MISFIRE_GRACE_MS;
  const runs = isOnTime || (misfirePolicy !== "none" && isWithin(newest));
  if (!runs) return { fires: [], oldest: newest };
  const fires = [newest];
  while (misfirePolicy === "all" && fires.length < maxCatchupRuns) {
    const older = findOlderDue(due, fires[0] ?? newest);
    if (older === null || !isWithin(older)) break;
    fires.unshift(older);
  }
  return { fires, oldest: fires[0] ?? newest };
}

/** Instants since the last decision that calendars left out, oldest first. */
function findLeftOut(due: DueTiming, now: Date, limits: DueLimits): readonly SkippedFire[] {
  const { timing, decidedUntil = null } = due;
  if (timing.calendars === undefined || decidedUntil === null) return [];
  const found = calendarSkipsBetween(timing, { from: decidedUntil, to: now, limit: limits.countedSkips });
  return found.map(({ at }) => ({ at, reason: "calendar" as const })).reverse();
}

/** The stored instant counts as due even when newer zone data would no longer give it. */
function findNewestDue(due: DueTiming, now: Date): Date {
  const last = previousFire(due.timing, new Date(now.getTime() + 1));
  return last !== null && last > due.nextFireAt ? last : due.nextFireAt;
}

function findOlderDue(due: DueTiming, newer: Date): Date | null {
  if (newer <= due.nextFireAt) return null;
  const older = previousFire(due.timing, newer);
  return older !== null && older > due.nextFireAt ? older : due.nextFireAt;
}

/** How many due instants lie before `newer`. */
function countOlderDue(due: DueTiming, newer: Date, limits: DueLimits): { count: number; exact: boolean } {
  const { timing } = due;
  switch (timing.kind) {
    case "at":
      return { count: 0, exact: true };
    case "every":
      if (timing.calendars === undefined) {
        return { count: Math.ceil((newer.getTime() - due.nextFireAt.getTime()) / timing.intervalMs), exact: true };
      }
      return countOneByOne(due, newer, limits);
    case "cron":
      return countOneByOne(due, newer, limits);
    default:
      return unreachable(timing);
  }
}

function countOneByOne(due: DueTiming, newer: Date, limits: DueLimits): { count: number; exact: boolean } {
  let count = 0;
  for (let at = findOlderDue(due, newer); at !== null; at = findOlderDue(due, at)) {
    if (count >= limits.countedSkips) return { count, exact: false };
    count += 1;
  }
  return { count, exact: true };
}
