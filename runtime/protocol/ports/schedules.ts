import type { ScheduleSpec } from "../../config/objects.ts";
import type { JobId } from "../../core/ids.ts";

/** A schedule whose next fire is due, with the database's time. */
export interface DueSchedule {
  readonly name: string;
  readonly spec: ScheduleSpec;
  /** Changes with every edit of the timing fields; part of the compare-and-set. */
  readonly timingHash: string;
  readonly nextFireAt: Date;
}

/** One decided step of a schedule; lands only while `expected` still stands. */
export interface ScheduleStep {
  readonly name: string;
  readonly expected: { readonly nextFireAt: Date | null; readonly timingHash: string };
  readonly fires: readonly { readonly at: Date; readonly jobId: JobId }[];
  /** Instants that are recorded as not run, oldest first. */
  readonly skips: readonly { readonly at: Date; readonly reason: "missed" | "superseded" }[];
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
  /** Skipped since a run of the schedule is still on its way (overlap Forbid). */
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
  /** Fires `runOnStart` schedules that have not fired since this cold start of the installation. */
  fireOnStart(makeJobId: () => JobId): Promise<number>;
  /** Fires a schedule by hand, now, whatever its timing; null when there is no such schedule. */
  triggerSchedule(name: string, jobId: JobId): Promise<JobId | null>;
  /** Scheduled → Enqueued for what is due; also lifts holds whose reason is gone. Returns queues that got work. */
  promoteDue(limit: number): Promise<{ readonly promoted: number; readonly queues: readonly string[] }>;
  /** Milliseconds until the next job or schedule is due; null: nothing is planned. */
  nextDueInMs(): Promise<number | null>;
}
