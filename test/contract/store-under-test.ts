import type { JobDefinition, ScheduleSpec } from "../../runtime/config/objects.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import type { Json } from "../../runtime/core/json.ts";
import type { AttemptOutcome, DeliveryStore, ExecutionStore, JobStore } from "../../runtime/protocol/ports/jobs.ts";
import type { LeaseStore } from "../../runtime/protocol/ports/leases.ts";
import type { OutboxStore } from "../../runtime/protocol/ports/outbox.ts";
import type { PauseStore } from "../../runtime/protocol/ports/pauses.ts";
import type { ScheduleStore } from "../../runtime/protocol/ports/schedules.ts";
import type { SlaStore } from "../../runtime/protocol/ports/slas.ts";
import type { CleanupStore, WorkerStore } from "../../runtime/protocol/ports/workers.ts";
import type { Hold, JobState } from "../../runtime/protocol/states.ts";

export type AnyStore = JobStore &
  ExecutionStore &
  DeliveryStore &
  LeaseStore &
  ScheduleStore &
  WorkerStore &
  CleanupStore &
  PauseStore &
  SlaStore &
  OutboxStore;

/** What the suite looks at in a job's row. */
export interface JobView {
  readonly state: JobState;
  readonly hold: Hold | null;
  readonly failures: number;
  readonly execution: number;
  readonly lost: number;
  readonly lostUnstarted: number;
  readonly returns: number;
  readonly generation: number;
  readonly cancelRequested: boolean;
  readonly started: boolean;
  readonly progress: number;
  readonly result: Json;
  readonly error: string | null;
  /** Milliseconds from the database's now until it is due. */
  readonly dueInMs: number;
  /** Outcomes of its recorded attempts, oldest first. */
  readonly attempts: readonly AttemptOutcome[];
}

export interface FireView {
  readonly at: Date;
  readonly outcome: string;
  readonly jobId: JobId | null;
  readonly blockedBy: JobId | null;
  readonly olderSkips: number;
}

/** A store with an empty database, and what the suite needs beside its ports. */
export interface StoreUnderTest {
  readonly store: AnyStore;
  /** Puts a job type in force, or replaces the one that was. */
  declareJob(definition: JobDefinition): Promise<void>;
  declareQueue(queue: {
    readonly name: string;
    readonly concurrency: number | null;
    readonly suspended: boolean;
  }): Promise<void>;
  declareSchedule(schedule: {
    readonly name: string;
    readonly spec: ScheduleSpec;
    readonly timingHash: string;
    readonly nextFireAt: Date | null;
  }): Promise<void>;
  readJob(id: JobId): Promise<JobView | null>;
  /** Of a job, pending ones. */
  countDeadLetters(id: JobId): Promise<number>;
  /** Oldest first. */
  readFires(schedule: string): Promise<readonly FireView[]>;
  readNextFire(schedule: string): Promise<Date | null>;
  now(): Promise<Date>;
  /** Moves the database's time on: every instant it keeps lies that much further back. */
  elapse(ms: number): Promise<void>;
  close(): Promise<void>;
}
