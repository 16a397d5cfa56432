import type { ScheduleSpec } from "../config/objects.ts";
import { describeError } from "../core/errors.ts";
import { isRefusal } from "../protocol/ports/errors.ts";
import type { PauseStore } from "../protocol/ports/pauses.ts";
import type { DueSchedule, ScheduleStep, ScheduleStore, StepOutcome } from "../protocol/ports/schedules.ts";
import type { Ids } from "../protocol/ports/surroundings.ts";
import { findCalendarSkip } from "../time/calendar.ts";
import { DEFAULT_CATCHUP_RUNS, type DueDecision, decideDue } from "../time/due.ts";
import { jitterDelayMs } from "../time/jitter.ts";
import { DueWait } from "./due-wait.ts";
import { endPauses } from "./pauses.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface SchedulerOptions extends LoopSurroundings {
  readonly store: Pick<
    ScheduleStore,
    "loadDueSchedules" | "applySteps" | "wakeFinishedSchedules" | "fireOnStart" | "nextDueInMs"
  > &
    PauseStore;
  readonly ids: Pick<Ids, "jobId">;
  readonly intervalMs: number;
  /** Schedules decided in one round trip. */
  readonly batchSize: number;
  /** For tests; the rules of time otherwise. */
  readonly decide?: (schedule: DueSchedule, now: Date) => DueDecision;
}

/** A schedule that cannot be decided is tried again after this long. */
const BROKEN_RETRY_MS = 60_000;
/** `every … from: finish` waits for runs to end, which nothing announces. */
const LONGEST_WAIT_MS = 1_000;

/**
 * Fires what is due: load, decide, apply, until nothing is due. The decision is pure; that a fire happens once is the
 * database's compare-and-set, so a paused leader that comes back does nothing (reliability F51, F53).
 */
export function startScheduler(options: SchedulerOptions): Loop {
  const { store, ids, clock, random, observer, intervalMs, batchSize, decide = decideByTiming } = options;
  const brokenSinceMs = new Map<string, number>();
  const wait = new DueWait(Math.min(intervalMs, LONGEST_WAIT_MS));

  const isQuarantined = (name: string): boolean => {
    const sinceMs = brokenSinceMs.get(name);
    if (sinceMs === undefined) return false;
    if (clock.monotonicMs() - sinceMs < BROKEN_RETRY_MS) return true;
    brokenSinceMs.delete(name);
    return false;
  };
  const delayOf = ({ name, spec }: DueSchedule): number =>
    jitterDelayMs(spec.timing.jitter, { name, random: random.next() });
  const quarantine = (name: string, error: unknown): void => {
    brokenSinceMs.set(name, clock.monotonicMs());
    observer.observe({ kind: "schedule-broken", schedule: name, message: describeError(error) });
  };

  function plan(schedule: DueSchedule, now: Date): { step: ScheduleStep; missed: number } | null {
    try {
      const decision = decide(schedule, now);
      return {
        step: {
          name: schedule.name,
          expected: { nextFireAt: schedule.nextFireAt, timingHash: schedule.timingHash },
          fires: decision.fires.map((at) => ({ at, jobId: ids.jobId(), delayMs: delayOf(schedule) })),
          skips: decision.skips,
          olderSkips: decision.skippedCount - decision.skips.length,
          nextFireAt: decision.nextFireAt,
        },
        missed: decision.skippedCount,
      };
    } catch (error) {
      quarantine(schedule.name, error);
      return null;
    }
  }

  /** All together; when the database refuses one of them, each alone, so that the bad one is found. */
  async function apply(steps: readonly ScheduleStep[]): Promise<readonly StepOutcome[]> {
    try {
      return await store.applySteps(steps);
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
    const outcomes: StepOutcome[] = [];
    for (const step of steps) {
      try {
        outcomes.push(...(await store.applySteps([step])));
      } catch (error) {
        if (!isRefusal(error)) throw error;
        quarantine(step.name, error);
      }
    }
    return outcomes;
  }

  /** False: nothing is due but what cannot be moved on. */
  async function fireBatch(): Promise<boolean> {
    const brokenBefore = brokenSinceMs.size;
    // Quarantined ones stay due; asking for as many more keeps them from filling the batch.
    const due = await store.loadDueSchedules(batchSize + brokenSinceMs.size);
    const planned = due.schedules.flatMap((schedule) =>
      isQuarantined(schedule.name) ? [] : (plan(schedule, due.now) ?? []),
    );
    // What was just found broken may have filled the batch.
    if (planned.length === 0) return brokenSinceMs.size > brokenBefore;
    const outcomes = await apply(planned.map(({ step }) => step));
    for (const { name, kind, fired, overlapped } of outcomes) {
      const missed = planned.find(({ step }) => step.name === name)?.missed ?? 0;
      if (kind === "stale" || fired + overlapped.length + missed === 0) continue;
      observer.observe({ kind: "schedule-fired", schedule: name, fires: fired, overlapped: overlapped.length, missed });
    }
    return outcomes.some(({ kind }) => kind === "applied");
  }

  return startLoop({
    ...options,
    name: "scheduler",
    cycle: async (signal) => {
      // Every time: what the first revision declares may come after the first round.
      await store.fireOnStart(ids.jobId, mayFireAt);
      await store.wakeFinishedSchedules();
      await endPauses(store, batchSize);
      let moved = false;
      while (!signal.aborted && (await fireBatch())) moved = true;
      return wait.after({ moved, dueInMs: await store.nextDueInMs() });
    },
  });
}

function decideByTiming({ spec, nextFireAt, decidedUntil }: DueSchedule, now: Date): DueDecision {
  const { timing, misfirePolicy, startingDeadlineMs = null, maxCatchupRuns = DEFAULT_CATCHUP_RUNS } = spec;
  return decideDue({ timing, nextFireAt, misfirePolicy, startingDeadlineMs, maxCatchupRuns, decidedUntil }, now);
}

/** A start of the installation fires no schedule on a day that its calendars leave out. */
function mayFireAt({ timing }: ScheduleSpec, now: Date): boolean {
  return timing.calendars === undefined || findCalendarSkip(timing.calendars, now.getTime()) === null;
}
