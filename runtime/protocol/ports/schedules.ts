import type { ScheduleSpec } from "../../config/objects.ts";
import type { JobId } from "../../core/ids.ts";

/** Why an instant does not run: dropped by the misfire policy, a newer one runs in its place, or a calendar. */
export type SkipReason = "missed" | "superseded" | "calendar";

/** A schedule whose next fire is due, with the database's time. */
export interface DueSchedule {
  readonly name: string;
  readonly spec: ScheduleSpec;
  /** Changes with every edit of the timing fields; part of the compare-and-set. */
  readonly timingHash: string;
  readonly nextFireAt: Date;
  /** Up to here every instant has fired or was left out; null: not known. */
  readonly decidedUntil: Date | null;
}

/** One decided step of a schedule; lands only while `expected` still stands. */
export interface ScheduleStep {
  readonly name: string;
  readonly expected: { readonly nextFireAt: Date | null; readonly timingHash: string };
  /** `delayMs`: how long after its instant the job is due; absent: at it. */
  readonly fires: readonly { readonly at: Date; readonly jobId: JobId; readonly delayMs?: number }[];
  /** Instants that are recorded as not run, oldest first. */
  readonly skips: readonly { readonly at: Date; readonly reason: SkipReason }[];
  /** Skipped instants before those, of which only the number is kept. */
  readonly olderSkips: number;
  /** Null: none is known (never fires, or it waits for the end of its run). */
  readonly nextFireAt: Date | null;
}

export interface StepOutcome {
  readonly name: string;
  /** `stale`: somebody else moved the schedule on, or it was edited; nothing was done. */
  readonly kind: "applied" | "stale";
  readonly fired: number;
  /** Skipped since a run of the schedule is still on its way (Forbid), one waits already (Queue) or a newer one comes (Replace). */
  readonly overlapped: readonly { readonly at: Date; readonly blockedBy: JobId }[];
}

/** The scheduler's and the promoter's view of the database. */
export interface ScheduleStore {
  /** Due by the database's clock, soonest first; not suspended. */
  loadDueSchedules(limit: number): Promise<{ readonly now: Date; readonly schedules: readonly DueSchedule[] }>;
  /** Inserts fires and their jobs and moves the schedules on, each step all or nothing. */
  applySteps(steps: readonly ScheduleStep[]): Promise<readonly StepOutcome[]>;
  /** `every … from: finish`: sets the next fire of schedules whose run has ended. Returns how many. */
  wakeFinishedSchedules(): Promise<number>;
  /**
   * Fires `runOnStart` schedules that have not fired since this cold start of the installation. Those that may not,
   * by their calendars, are done with it all the same.
   */
  fireOnStart(makeJobId: () => JobId, mayFire?: (spec: ScheduleSpec, now: Date) => boolean): Promise<number>;
  /** Fires a schedule by hand, now, whatever its timing; null when there is no such schedule. */
  triggerSchedule(name: string, jobId: JobId): Promise<JobId | null>;
  /** Scheduled → Enqueued for what is due; also lifts holds whose reason is gone. Returns queues that got work. */
  promoteDue(limit: number): Promise<{ readonly promoted: number; readonly queues: readonly string[] }>;
  /**
   * Overlap: cancels what a held run of a Replace schedule comes in place of, and lets held runs go when nothing of
   * their schedule from before them is on its way. To be called again and again: it only looks at what is.
   */
  settleOverlaps(limit: number): Promise<{ readonly cancelled: number; readonly released: number }>;
  /** Milliseconds until the next job or schedule is due; null: nothing is planned. */
  nextDueInMs(): Promise<number | null>;
}
