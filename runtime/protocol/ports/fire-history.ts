import type { JobId } from "../../core/ids.ts";
import type { JobState } from "../states.ts";
import type { FireView, ScheduleView } from "./panel.ts";

/** What became of one instant of a schedule. */
export interface FireRecord extends FireView {
  /** The job that stood in its way. */
  readonly blockedBy: string | null;
  readonly decidedAt: Date;
  /** Skipped instants before this one that have no record of their own. */
  readonly olderSkips: number;
}

/** A schedule in force, with the time since when its declaration is as it is. */
export interface ScheduleRecord {
  readonly now: Date;
  readonly schedule: ScheduleView;
  readonly declaredAt: Date | null;
}

/** A recorded fire with the run it made, for looking back at what happened. */
export interface RecordedRun {
  readonly schedule: string;
  readonly at: Date;
  readonly outcome: FireView["outcome"];
  /** Null where there is no job, or it was cleaned up. */
  readonly state: JobState | null;
  readonly queue: string | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
}

export type BackfillOutcome =
  /** `made` were created; the others had fired already, or were asked for twice. */
  | { readonly kind: "inserted"; readonly made: readonly { readonly at: Date; readonly jobId: JobId }[] }
  | { readonly kind: "no-schedule" }
  /** The schedule has another timing than the instants were computed from. */
  | { readonly kind: "edited" };

/** Looking back: what schedules did, and making up for what they did not. */
export interface FireHistory {
  loadSchedule(name: string): Promise<ScheduleRecord | null>;
  /** Records of the instants from `from` up to and with `to`, newest first. */
  listRecords(request: {
    readonly schedule: string;
    readonly from: Date;
    readonly to: Date;
    readonly limit: number;
  }): Promise<readonly FireRecord[]>;
  /** Fires decided since an instant, newest first. */
  listRuns(request: { readonly since: Date; readonly limit: number }): Promise<readonly RecordedRun[]>;
  /**
   * Fires past instants that have not fired, each recorded as a backfill; what was skipped fires after all. With an
   * overlap policy other than Allow the jobs run one after another. All or nothing.
   */
  backfill(request: {
    readonly schedule: string;
    readonly timingHash: string;
    readonly fires: readonly { readonly at: Date; readonly jobId: JobId }[];
  }): Promise<BackfillOutcome>;
}
