import type { ScheduleSpec } from "../../config/objects.ts";
import type { Pause, PauseStore, PauseTarget } from "../../protocol/ports/pauses.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import * as statements from "./pause-statements.ts";
import type { Database } from "./pool.ts";

interface PauseRow {
  readonly paused_by: string | null;
  readonly reason: string | null;
  readonly paused_at: Date | null;
  readonly until: Date | null;
}

interface StateRow extends PauseRow {
  readonly now: Date;
  readonly suspended: boolean;
  readonly spec: ScheduleSpec | null;
  readonly timing_hash: string | null;
}

/** Pauses on PostgreSQL; ends are judged by the database's clock. */
export function createPauseStore(database: Database, doorbell: Pick<Doorbell, "ring">): PauseStore {
  return {
    async pause({ kind, name, by, reason, until }) {
      const statement = kind === "Schedule" ? statements.PAUSE_SCHEDULE : statements.PAUSE_QUEUE;
      const [row] = await database.query<PauseRow>(statement, [name, by, reason, until]);
      if (row === undefined) return { kind: "not-found" };
      const pause = toPause(row);
      return pause === null ? { kind: "over" } : { kind: "paused", pause };
    },

    async loadPause({ kind, name }) {
      const statement = kind === "Schedule" ? statements.LOAD_PAUSED_SCHEDULE : statements.LOAD_PAUSED_QUEUE;
      const [row] = await database.query<StateRow>(statement, [name]);
      if (row === undefined) return null;
      const { now, suspended, spec, timing_hash: timingHash } = row;
      const schedule = spec === null || timingHash === null ? null : { spec, timingHash };
      return { now, suspendedInFiles: suspended, pause: toPause(row), schedule };
    },

    async liftPause({ kind, name, expected, nextFireAt }) {
      const rows =
        kind === "Schedule"
          ? await database.query(statements.LIFT_SCHEDULE, [name, expected.pausedAt, expected.timingHash, nextFireAt])
          : await database.query(statements.LIFT_QUEUE, [name, expected.pausedAt]);
      if (rows.length === 0) return false;
      doorbell.ring(kind === "Schedule" ? { kind: "schedules" } : { kind: "queue", queue: name });
      return true;
    },

    listEndedPauses: (limit) => database.query<PauseTarget>(statements.LIST_ENDED_PAUSES, [limit]),
  };
}

function toPause(row: PauseRow): Pause | null {
  if (row.paused_at === null) return null;
  return { by: row.paused_by ?? "", reason: row.reason, pausedAt: row.paused_at, until: row.until };
}
