import { nextNominalFire, previousFire, previousNominalFire, waitsForFinish } from "./next-fire.ts";
import type { Timing } from "./timing.ts";

/** What is expected of a schedule's runs. */
export interface Expectations {
  readonly finishBy: string | null;
  readonly maxAgeMs: number | null;
}

/** A run that has succeeded. */
export interface Success {
  readonly finishedAt: Date;
  /** The instant that it ran for. */
  readonly firedFor: Date;
}

export interface SlaState {
  readonly sla: Expectations;
  readonly timing: Timing;
  readonly timeZone: string;
  /** Runs are expected from here on: the schedule is new, edited or resumed. */
  readonly since: Date;
  /** Up to here everything was judged. */
  readonly judgedUntil: Date;
  /** The end of the last success that was ever seen; its job may be cleaned up by now. */
  readonly lastSuccessAt: Date | null;
  /** The newest ones that are still there. */
  readonly successes: readonly Success[];
}

export interface SlaMiss {
  readonly expectation: "finish-by" | "max-age";
  /** When the run was expected at the latest. */
  readonly dueAt: Date;
}

export interface SlaJudgement {
  readonly misses: readonly SlaMiss[];
  readonly nextDueAt: Date;
  readonly lastSuccessAt: Date | null;
}

/** Looked at this often at least, so that a success is seen before its job is cleaned up. */
const LONGEST_REST_MS = 12 * 3_600_000;

/** Which runs were expected by now and did not come. A miss is given again until it has been written down. */
export function judgeSla(state: SlaState, now: Date): SlaJudgement {
  const { sla, since, successes } = state;
  const ends = successes.map(({ finishedAt }) => finishedAt.getTime());
  const lastMs = Math.max(state.lastSuccessAt?.getTime() ?? 0, ...ends);
  const misses: SlaMiss[] = [];
  const dueMs = [now.getTime() + LONGEST_REST_MS];
  if (sla.maxAgeMs !== null) {
    const deadline = Math.max(lastMs, since.getTime()) + sla.maxAgeMs;
    if (deadline <= now.getTime()) misses.push({ expectation: "max-age", dueAt: new Date(deadline) });
    dueMs.push(deadline > now.getTime() ? deadline : now.getTime() + sla.maxAgeMs);
  }
  if (sla.finishBy !== null) {
    const [hour = "", minute = ""] = sla.finishBy.split(":");
    const daily: Timing = {
      kind: "cron",
      expression: `${Number(minute)} ${Number(hour)} * * *`,
      timeZone: state.timeZone,
    };
    misses.push(...judgeDays(state, daily, now));
    const next = nextNominalFire(daily, now);
    if (next !== null) dueMs.push(next.getTime());
  }
  return {
    misses: misses.sort((one, other) => one.dueAt.getTime() - other.dueAt.getTime()),
    nextDueAt: new Date(Math.min(...dueMs)),
    lastSuccessAt: lastMs === 0 ? null : new Date(lastMs),
  };
}

/** The times of day since the last judgement at which something that had fired since the day before had no success. */
function judgeDays(state: SlaState, daily: Timing, now: Date): readonly SlaMiss[] {
  const { timing, since, judgedUntil, successes } = state;
  const misses: SlaMiss[] = [];
  if (waitsForFinish(timing)) return misses;
  let by = previousNominalFire(daily, new Date(now.getTime() + 1));
  for (let days = 0; days < 31 && by !== null && by > judgedUntil; days++) {
    const end: Date = by;
    const begin = previousNominalFire(daily, end) ?? since;
    const from = new Date(Math.max(begin.getTime(), since.getTime()));
    const expected = previousFire(timing, new Date(end.getTime() + 1));
    const isExpected = expected !== null && expected > from;
    const hasCome = successes.some(({ finishedAt, firedFor }) => firedFor > from && finishedAt <= end);
    if (isExpected && !hasCome) misses.push({ expectation: "finish-by", dueAt: end });
    by = begin;
  }
  return misses;
}
