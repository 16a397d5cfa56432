import type { ScheduleSpec } from "../../config/objects.ts";
import { assert } from "../../core/assert.ts";
import type { JobId } from "../../core/ids.ts";
import type { SlaStore } from "../../protocol/ports/slas.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import type { Database } from "./pool.ts";
import { LOAD_DUE_SLAS, RECORD_SLA } from "./sla-statements.ts";

interface DueRow {
  readonly name: string;
  readonly spec: ScheduleSpec;
  readonly sla_due_at: Date;
  readonly judged_until: Date;
  readonly since: Date;
  readonly sla_success_at: Date | null;
  readonly successes: readonly { readonly finishedAt: string; readonly firedFor: string }[];
}

interface MissRow {
  readonly expectation: "finish-by" | "max-age";
  readonly due_at: Date;
  readonly job_id: JobId | null;
  readonly queue: string | null;
}

/** Expectations on PostgreSQL. */
export function createSlaStore(database: Database, doorbell: Pick<Doorbell, "ring">): SlaStore {
  return {
    async loadDueSlas(limit) {
      const rows = await database.query<{ now: Date } & (DueRow | { name: null })>(LOAD_DUE_SLAS, [limit]);
      const [first] = rows;
      assert(first !== undefined, "the database did not tell its time");
      const due = rows.filter((row): row is { now: Date } & DueRow => row.name !== null);
      return {
        now: first.now,
        schedules: due.map((row) => ({
          name: row.name,
          spec: row.spec,
          dueAt: row.sla_due_at,
          judgedUntil: row.judged_until,
          since: row.since,
          lastSuccessAt: row.sla_success_at,
          successes: row.successes.map(({ finishedAt, firedFor }) => ({
            finishedAt: new Date(finishedAt),
            firedFor: new Date(firedFor),
          })),
        })),
      };
    },

    async recordSla({ name, expectedDueAt, misses, nextDueAt, lastSuccessAt }) {
      const rows = await database.query<MissRow>(RECORD_SLA, [
        name,
        expectedDueAt,
        nextDueAt,
        lastSuccessAt,
        misses.map(({ expectation }) => expectation),
        misses.map(({ dueAt }) => dueAt),
        misses.map(({ jobId }) => jobId),
      ]);
      for (const { queue } of rows) if (queue !== null) doorbell.ring({ kind: "queue", queue });
      return rows.map(({ expectation, due_at: dueAt, job_id: jobId }) => ({ expectation, dueAt, jobId }));
    },
  };
}
