import type { ScheduleSpec } from "../../config/objects.ts";
import { assert } from "../../core/assert.ts";
import type { JobId } from "../../core/ids.ts";
import type { ScheduleStep, ScheduleStore, StepOutcome } from "../../protocol/ports/schedules.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { createKeySweep, takeKeys } from "./concurrency-keys.ts";
import { createJobStore } from "./job-store.ts";
import type { Database } from "./pool.ts";
import {
  APPLY_STEPS,
  FIND_REPLACED,
  FIRE_ON_START,
  LOAD_DUE_SCHEDULES,
  LOAD_ON_START,
  NEXT_DUE,
  ON_START_BATCH,
  PROMOTE_DUE,
  RELEASE_OVERLAPS,
  RELEASE_UNHANDLED,
  TRIGGER_SCHEDULE,
  WAKE_FINISHED,
} from "./schedule-statements.ts";

interface DueRow {
  readonly name: string;
  readonly spec: ScheduleSpec;
  readonly timing_hash: string;
  readonly next_fire_at: Date;
  readonly decided_until: Date | null;
}

interface StepRow {
  readonly name: string;
  readonly fire_at: Date | null;
  readonly outcome: string | null;
  readonly blocked_by: JobId | null;
  /** Where a job was made. */
  readonly queue: string | null;
  /** What the made job waits for. */
  readonly key: string | null;
}

interface MovedOn {
  readonly queue: string;
  readonly jobs: number;
  readonly runnable: boolean;
  readonly keys: readonly string[];
}

/** How often the net beneath the hand-over of concurrency keys is drawn through. */
const KEY_SWEEP_MS = 2_000;

/** Fires and promotions on PostgreSQL; every instant is judged by the database's clock. */
export function createScheduleStore(database: Database, doorbell: Pick<Doorbell, "ring">): ScheduleStore {
  const ringQueues = (queues: Iterable<string>): void => {
    for (const queue of new Set(queues)) doorbell.ring({ kind: "queue", queue });
  };
  const sweepKeys = createKeySweep(database);
  const jobs = createJobStore(database, doorbell);
  let nextSweepMs = Number.NEGATIVE_INFINITY;

  /** Jobs wait in line since a statement before; a crash between the two is mended by the sweep. Names the queues that got work. */
  async function admit(keys: readonly string[]): Promise<readonly string[]> {
    if (keys.length === 0) return [];
    return (await database.transaction((query) => takeKeys(query, keys))).map((job) => job.queue);
  }

  async function sweepSometimes(): Promise<readonly string[]> {
    const nowMs = performance.now();
    if (nowMs < nextSweepMs) return [];
    nextSweepMs = nowMs + KEY_SWEEP_MS;
    return sweepKeys();
  }

  async function ringMade(
    made: readonly { readonly queue: string | null; readonly key: string | null }[],
  ): Promise<void> {
    const runnable = made.flatMap(({ queue, key }) => (queue === null || key !== null ? [] : [queue]));
    ringQueues([...runnable, ...(await admit(made.flatMap(({ key }) => key ?? [])))]);
  }

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
          decidedUntil: row.decided_until,
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
        fires.map((fire) => fire.delayMs ?? 0),
      ]);
      await ringMade(rows);
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

    async fireOnStart(makeJobId, mayFire = () => true) {
      let fired = 0;
      for (let more = true; more; ) {
        const rows = await database.query<{ name: string; spec: ScheduleSpec; now: Date }>(LOAD_ON_START);
        more = rows.length === ON_START_BATCH;
        if (rows.length === 0) break;
        const made = await database.query<{ queue: string; key: string | null }>(FIRE_ON_START, [
          rows.map(({ name }) => name),
          rows.map(({ spec, now }) => (mayFire(spec, now) ? makeJobId() : null)),
        ]);
        await ringMade(made);
        fired += made.length;
      }
      return fired;
    },

    async triggerSchedule(name, jobId) {
      const [made] = await database.query<{ id: JobId; queue: string; key: string | null }>(TRIGGER_SCHEDULE, [
        [name],
        [jobId],
      ]);
      if (made === undefined) return null;
      await ringMade([made]);
      return made.id;
    },

    async promoteDue(limit) {
      const due = await database.query<MovedOn & { queue: string }>(PROMOTE_DUE, [limit]);
      const released = await database.query<MovedOn & { queue: string }>(RELEASE_UNHANDLED, [limit]);
      const rows = [...due, ...released];
      const admitted = [...(await admit(rows.flatMap((row) => row.keys))), ...(await sweepSometimes())];
      const queues = [...new Set([...rows.filter((row) => row.runnable).map((row) => row.queue), ...admitted])];
      ringQueues(queues);
      return { promoted: rows.reduce((sum, row) => sum + row.jobs, 0), queues };
    },

    async settleOverlaps(limit) {
      const replaced = await database.query<{ id: JobId }>(FIND_REPLACED, [limit]);
      for (const { id } of replaced) await jobs.cancelJob(id);
      const rows = await database.query<MovedOn>(RELEASE_OVERLAPS, [limit]);
      const admitted = await admit(rows.flatMap((row) => row.keys));
      ringQueues([...rows.filter((row) => row.runnable).map((row) => row.queue), ...admitted]);
      return { cancelled: replaced.length, released: rows.reduce((sum, row) => sum + row.jobs, 0) };
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
