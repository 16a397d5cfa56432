import { unreachable } from "../core/assert.ts";
import { nextFire, previousFire } from "./next-fire.ts";
import type { Timing } from "./timing.ts";

/** An instant this late still counts as on time: a change of leader takes that long at most. */
export const MISFIRE_GRACE_MS = 60_000;

/** A schedule whose next fire has come. */
export interface DueTiming {
  readonly timing: Timing;
  readonly nextFireAt: Date;
  readonly misfirePolicy: "latest" | "none";
}

/** An instant that is not run: dropped by `none`, or since a newer one runs in its place. */
export interface SkippedFire {
  readonly at: Date;
  readonly reason: "missed" | "superseded";
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
  /** Instants that run now, oldest first; at most one with the policies there are. */
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
 * late. Only the newest can run: under `latest` always, under `none` when it is not missed. Takes bounded time
 * however many instants have passed.
 */
export function decideDue(due: DueTiming, now: Date, limits: DueLimits = DUE_LIMITS): DueDecision {
  if (due.nextFireAt > now) {
    return { fires: [], skips: [], skippedCount: 0, skippedCountExact: true, nextFireAt: due.nextFireAt };
  }
  const newest = findNewestDue(due, now);
  const missed = now.getTime() - newest.getTime() > MISFIRE_GRACE_MS;
  const runs = due.misfirePolicy === "latest" || !missed;
  const reason = due.misfirePolicy === "latest" ? "superseded" : "missed";

  const skips: SkippedFire[] = runs ? [] : [{ at: newest, reason }];
  let oldest = newest;
  while (skips.length < limits.namedSkips) {
    const older = findOlderDue(due, oldest);
    if (older === null) break;
    skips.unshift({ at: older, reason });
    oldest = older;
  }
  const rest = countOlderDue(due, oldest, limits);
  return {
    fires: runs ? [newest] : [],
    skips,
    skippedCount: skips.length + rest.count,
    skippedCountExact: rest.exact,
    nextFireAt: waitsForFinish(due.timing) && runs ? null : nextFire(due.timing, now),
  };
}

/**
 * The first fire of a schedule that is new, whose timing changed or whose suspend was lifted: strictly after the
 * apply, so that an edit never fires a job and nothing before it is missed.
 */
export function firstFireAfterEdit(timing: Timing, appliedAt: Date): Date | null {
  return nextFire(timing, appliedAt);
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
    case "every": {
      const between = newer.getTime() - due.nextFireAt.getTime();
      return { count: Math.ceil(between / timing.intervalMs), exact: true };
    }
    case "cron": {
      let count = 0;
      for (let at = findOlderDue(due, newer); at !== null; at = findOlderDue(due, at)) {
        if (count >= limits.countedSkips) return { count, exact: false };
        count += 1;
      }
      return { count, exact: true };
    }
    default:
      return unreachable(timing);
  }
}

function waitsForFinish(timing: Timing): boolean {
  return timing.kind === "every" && timing.from === "finish";
}
