import type { ScheduleSpec } from "../../config/objects.ts";
import { assert } from "../../core/assert.ts";
import type { JobId } from "../../core/ids.ts";
import type { ScheduleStep, ScheduleStore, StepOutcome } from "../../protocol/ports/schedules.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import type { Database } from "./pool.ts";
import {
  APPLY_STEPS,
  FIRE_ON_START,
  LOAD_DUE_SCHEDULES,
  LOAD_ON_START,
  NEXT_DUE,
  ON_START_BATCH,
  PROMOTE_DUE,
  RELEASE_UNHANDLED,
  TRIGGER_SCHEDULE,
  WAKE_FINISHED,
} from "./schedule-statements.ts";

interface DueRow {
  readonly name: string;
  readonly spec: ScheduleSpec;
  readonly timing_hash: string;
  readonly next_fire_at: Date;
}

interface StepRow {
  readonly name: string;
  readonly fire_at: Date | null;
  readonly outcome: string | null;
  readonly blocked_by: JobId | null;
  readonly queue: string | null;
}

/** Fires and promotions on PostgreSQL; every instant is judged by the database's clock. */
export function createScheduleStore(database: Database, doorbell: Pick<Doorbell, "ring">): ScheduleStore {
  const ringQueues = (queues: Iterable<string>): void => {
    for (const queue of new Set(queues)) doorbell.ring({ kind: "queue", queue });
  };

  return {
    async loadDueSchedules(limit) {
      const rows = await database.query<{ now: Date } & (DueRow | { name: null })>(LOAD_DUE_SCHEDULES, [limit]);
      const [first] = rows;
      assert(first !== undefined, "the database did not tell its time");
      const due = rows.filter((row): row is { now: Date } & DueRow => row.name !== null);
      return {
        now: first.now,
        schedules: due.map((row) => ({
          name: row.name,
          spec: row.spec,
          timingHash: row.timing_hash,
          nextFireAt: row.next_fire_at,
        })),
      };
    },

    async applySteps(steps) {
      if (steps.length === 0) return [];
      const fires = steps.flatMap((step) => step.fires.map((fire) => ({ name: step.name, ...fire })));
      const skips = steps.flatMap(({ name, skips: named, olderSkips }) =>
        named.map((skip, index) => ({ name, ...skip, older: index === 0 ? olderSkips : 0 })),
      );
      const rows = await database.query<StepRow>(APPLY_STEPS, [
        steps.map((step) => step.name),
        steps.map((step) => step.expected.nextFireAt),
        steps.map((step) => step.expected.timingHash),
        steps.map((step) => step.nextFireAt),
        fires.map((fire) => fire.name),
        fires.map((fire) => fire.at),
        fires.map((fire) => fire.jobId),
        skips.map((skip) => skip.name),
        skips.map((skip) => skip.at),
        skips.map((skip) => skip.reason),
        skips.map((skip) => skip.older),
      ]);
      ringQueues(rows.flatMap((row) => (row.queue === null ? [] : [row.queue])));
      return steps.map((step) =>
        stepOutcome(
          step,
          rows.filter((row) => row.name === step.name),
        ),
      );
    },

    async wakeFinishedSchedules() {
      return (await database.query(WAKE_FINISHED)).length;
    },

    async fireOnStart(makeJobId) {
      let fired = 0;
      for (let more = true; more; ) {
        const names = (await database.query<{ name: string }>(LOAD_ON_START)).map((row) => row.name);
        more = names.length === ON_START_BATCH;
        if (names.length === 0) break;
        const made = await database.query<{ queue: string }>(FIRE_ON_START, [names, names.map(makeJobId)]);
        ringQueues(made.map((row) => row.queue));
        fired += made.length;
      }
      return fired;
    },

    async triggerSchedule(name, jobId) {
      const [made] = await database.query<{ id: JobId; queue: string }>(TRIGGER_SCHEDULE, [[name], [jobId]]);
      if (made === undefined) return null;
      ringQueues([made.queue]);
      return made.id;
    },

    async promoteDue(limit) {
      const due = await database.query<{ queue: string; jobs: number }>(PROMOTE_DUE, [limit]);
      const released = await database.query<{ queue: string; jobs: number }>(RELEASE_UNHANDLED, [limit]);
      const rows = [...due, ...released];
      const queues = [...new Set(rows.map((row) => row.queue))];
      ringQueues(queues);
      return { promoted: rows.reduce((sum, row) => sum + row.jobs, 0), queues };
    },

    async nextDueInMs() {
      const [row] = await database.query<{ ms: number | null }>(NEXT_DUE);
      return row?.ms ?? null;
    },
  };
}

function stepOutcome(step: ScheduleStep, rows: readonly StepRow[]): StepOutcome {
  return {
    name: step.name,
    kind: rows.some((row) => row.outcome === null) ? "applied" : "stale",
    fired: rows.filter((row) => row.outcome === "fired").length,
    overlapped: rows.flatMap((row) =>
      row.outcome === "overlapped" && row.fire_at !== null && row.blocked_by !== null
        ? [{ at: row.fire_at, blockedBy: row.blocked_by }]
        : [],
    ),
  };
}
