import type { ScheduleSpec } from "../../config/objects.ts";

/** What an operator may pause: laid over the files, kept through every apply, never written to git. */
export interface PauseTarget {
  readonly kind: "Schedule" | "Queue";
  readonly name: string;
}

export interface Pause {
  /** Who paused it. */
  readonly by: string;
  readonly reason: string | null;
  readonly pausedAt: Date;
  /** The first instant that is no longer paused; null: until somebody resumes it. */
  readonly until: Date | null;
}

export interface PauseRequest extends PauseTarget, Pick<Pause, "by" | "reason" | "until"> {}

export type PauseOutcome =
  | { readonly kind: "paused"; readonly pause: Pause }
  /** `until` has passed already, by the database's clock. */
  | { readonly kind: "over" }
  | { readonly kind: "not-found" };

export type ResumeOutcome =
  | { readonly kind: "resumed"; readonly nextFireAt: Date | null }
  | { readonly kind: "not-paused" }
  /** The files suspend it: only they can let it go. */
  | { readonly kind: "suspended-in-files" }
  | { readonly kind: "not-found" };

/** What a resume is decided from. */
export interface PausedState {
  /** The database's time. */
  readonly now: Date;
  readonly suspendedInFiles: boolean;
  readonly pause: Pause | null;
  /** Of a schedule. */
  readonly schedule: { readonly spec: ScheduleSpec; readonly timingHash: string } | null;
}

/** Each method is one transaction. */
export interface PauseStore {
  /** Also gives another reason or end to a pause that is there. */
  pause(request: PauseRequest): Promise<PauseOutcome>;
  /** Null: there is no such schedule or queue. */
  loadPause(target: PauseTarget): Promise<PausedState | null>;
  /**
   * Takes the pause away while it and the schedule's timing are those that were looked at. `nextFireAt` is the
   * schedule's next fire from now on; a run that it waits for is waited for on. False: something else stands now.
   */
  liftPause(
    request: PauseTarget & {
      readonly expected: { readonly pausedAt: Date; readonly timingHash: string | null };
      readonly nextFireAt: Date | null;
    },
  ): Promise<boolean>;
  /** Pauses whose end has come, by the database's clock. */
  listEndedPauses(limit: number): Promise<readonly PauseTarget[]>;
}

/** Pausing and resuming as operators ask for it. */
export interface Pauses {
  pause(request: PauseRequest): Promise<PauseOutcome>;
  resume(target: PauseTarget): Promise<ResumeOutcome>;
}
