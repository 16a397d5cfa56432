import { TurnoError } from "../core/errors.ts";
import type { PauseStore, Pauses, PauseTarget, ResumeOutcome } from "../protocol/ports/pauses.ts";
import { firstFireAfterEdit } from "../time/due.ts";
import type { Timing } from "../time/timing.ts";

/** However often a pause or a timing changes while it is lifted. */
const TRIES = 10;

/**
 * Pauses that operators lay over the files. Nothing is owed for the paused time: the first fire is strictly after the
 * resume, or, where the pause ends by itself, the first that lies at its end or later.
 */
export function createPauses(store: PauseStore): Pauses {
  return { pause: (request) => store.pause(request), resume: (target) => lift(store, target, "by hand") };
}

/** Lifts the pauses whose end has come. Returns how many; what the files suspend stays suspended. */
export async function endPauses(store: PauseStore, limit: number): Promise<number> {
  const ended = await store.listEndedPauses(limit);
  for (const target of ended) await lift(store, target, "by its end");
  return ended.length;
}

/** A timing that cannot be read comes due: the scheduler says what is wrong with it, and no other schedule waits. */
function firstFireOrDue(timing: Timing, after: Date): Date | null {
  try {
    return firstFireAfterEdit(timing, after);
  } catch {
    return after;
  }
}

async function lift(store: PauseStore, target: PauseTarget, how: "by hand" | "by its end"): Promise<ResumeOutcome> {
  for (let tries = 1; tries <= TRIES; tries++) {
    const state = await store.loadPause(target);
    if (state === null) return { kind: "not-found" };
    const { now, pause, schedule, suspendedInFiles } = state;
    if (suspendedInFiles && how === "by hand") return { kind: "suspended-in-files" };
    if (pause === null) return { kind: "not-paused" };
    if (how === "by its end" && (pause.until === null || pause.until > now)) return { kind: "not-paused" };
    const after = how === "by its end" && pause.until !== null ? new Date(pause.until.getTime() - 1) : now;
    const nextFireAt = schedule === null ? null : firstFireOrDue(schedule.spec.timing, after);
    const expected = { pausedAt: pause.pausedAt, timingHash: schedule?.timingHash ?? null };
    if (await store.liftPause({ ...target, expected, nextFireAt })) return { kind: "resumed", nextFireAt };
  }
  throw new TurnoError(
    "TURNO_ASSERTION_FAILED",
    `the pause of ${target.kind}/${target.name} changed whenever it was to be lifted`,
  );
}
