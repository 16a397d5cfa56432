import type { JobId } from "../../core/ids.ts";
import type { BackfillOutcome, FireHistory, FireRecord, RecordedRun } from "../../protocol/ports/fire-history.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { takeKeys } from "./concurrency-keys.ts";
import { BACKFILL, LIST_RECORDS, LIST_RUNS, LOAD_SCHEDULE, LOCK_SCHEDULE } from "./fire-history-statements.ts";
import { type Row, readFire, readSchedule } from "./panel-rows.ts";
import type { Database } from "./pool.ts";

interface BackfilledRow {
  readonly id: JobId;
  readonly queue: string;
  readonly key: string | null;
  readonly state: string;
  readonly fire_at: Date;
}

interface RunRow {
  readonly schedule: string;
  readonly fire_at: Date;
  readonly outcome: RecordedRun["outcome"];
  readonly state: RecordedRun["state"];
  readonly queue: string | null;
  readonly started_at: Date | null;
  readonly finished_at: Date | null;
}

/** What schedules did, and making up for what they did not, on PostgreSQL. */
export function createFireHistory(database: Database, doorbell: Pick<Doorbell, "ring">): FireHistory {
  return {
    async loadSchedule(name) {
      const [row] = await database.query<Row>(LOAD_SCHEDULE, [name]);
      if (row === undefined) return null;
      const { now, declared_at: declaredAt } = row;
      return {
        now: now instanceof Date ? now : new Date(0),
        schedule: readSchedule(row),
        declaredAt: declaredAt instanceof Date ? declaredAt : null,
      };
    },

    async listRecords({ schedule, from, to, limit }) {
      return (await database.query<Row>(LIST_RECORDS, [schedule, from, to, limit])).map(readRecord);
    },

    async listRuns({ since, limit }) {
      const rows = await database.query<RunRow>(LIST_RUNS, [since, limit]);
      return rows.map(({ fire_at: at, started_at: startedAt, finished_at: finishedAt, ...run }) => ({
        ...run,
        at,
        startedAt,
        finishedAt,
      }));
    },

    async backfill({ schedule, timingHash, fires }) {
      const queues = new Set<string>();
      const outcome = await database.transaction(async (query): Promise<BackfillOutcome> => {
        const [locked] = await query<{ timing_hash: string }>(LOCK_SCHEDULE, [schedule]);
        if (locked === undefined) return { kind: "no-schedule" };
        if (locked.timing_hash !== timingHash) return { kind: "edited" };
        const rows = await query<BackfilledRow>(BACKFILL, [
          schedule,
          fires.map(({ at }) => at),
          fires.map(({ jobId }) => jobId),
        ]);
        for (const { queue, state } of rows) if (state === "Enqueued") queues.add(queue);
        const keys = rows.flatMap(({ key }) => key ?? []);
        for (const { queue } of await takeKeys(query, [...new Set(keys)])) queues.add(queue);
        return { kind: "inserted", made: rows.map(({ id, fire_at: at }) => ({ at, jobId: id })) };
      });
      for (const queue of queues) doorbell.ring({ kind: "queue", queue });
      return outcome;
    },
  };
}

function readRecord(row: Row): FireRecord {
  const { blocked_by: blockedBy, decided_at: decidedAt } = row;
  return {
    ...readFire(row),
    blockedBy: typeof blockedBy === "string" ? blockedBy : null,
    decidedAt: decidedAt instanceof Date ? decidedAt : new Date(0),
    olderSkips: Number(row.older_skips),
  };
}
