import type { ScheduleSpec } from "../../config/objects.ts";
import type { JobId } from "../../core/ids.ts";

export interface DueSla {
  readonly name: string;
  readonly spec: ScheduleSpec;
  /** When it was to be judged; part of the compare-and-set. */
  readonly dueAt: Date;
  readonly judgedUntil: Date;
  readonly since: Date;
  readonly lastSuccessAt: Date | null;
  /** Of its newest fires, newest first. */
  readonly successes: readonly { readonly finishedAt: Date; readonly firedFor: Date }[];
}

export interface SlaStep {
  readonly name: string;
  readonly expectedDueAt: Date;
  /** Misses that were not written down before get their job, when one is declared for that. */
  readonly misses: readonly {
    readonly expectation: "finish-by" | "max-age";
    readonly dueAt: Date;
    readonly jobId: JobId;
  }[];
  readonly nextDueAt: Date;
  readonly lastSuccessAt: Date | null;
}

/** What is expected of schedules, judged by the database's clock. */
export interface SlaStore {
  loadDueSlas(limit: number): Promise<{ readonly now: Date; readonly schedules: readonly DueSla[] }>;
  /** One transaction. Gives back the misses that are new; none when somebody else has judged it meanwhile. */
  recordSla(step: SlaStep): Promise<
    readonly {
      readonly expectation: "finish-by" | "max-age";
      readonly dueAt: Date;
      /** The job that tells people; null: none is declared. */
      readonly jobId: JobId | null;
    }[]
  >;
}
