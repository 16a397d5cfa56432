import { createCleanupStore } from "../../runtime/adapters/postgres/cleanup-store.ts";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { createLeaseStore } from "../../runtime/adapters/postgres/lease-store.ts";
import { createOutboxStore } from "../../runtime/adapters/postgres/outbox-store.ts";
import { createPauseStore } from "../../runtime/adapters/postgres/pause-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createScheduleStore } from "../../runtime/adapters/postgres/schedule-store.ts";
import { createSlaStore } from "../../runtime/adapters/postgres/sla-store.ts";
import { createWorkerStore } from "../../runtime/adapters/postgres/worker-store.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { FireView, JobView, StoreUnderTest } from "../contract/store-under-test.ts";
import type { TestDatabase } from "../support/database.ts";
import { declareJobType, declareSchedule } from "../support/declare.ts";

const noRing = { ring: () => {} };

/** The real adapter as the store's contract takes it; closing it drops the database. */
export async function openStoreUnderTest(testDatabase: TestDatabase): Promise<StoreUnderTest> {
  const database = openDatabase({
    address: testDatabase.address,
    applicationName: "store-contract",
    size: 4,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  let elapsedMs = 0;
  return {
    store: {
      ...createJobStore(database, noRing),
      ...createExecutionStore({ database, logger: silentLogger, monotonicMs: () => performance.now() }),
      ...createLeaseStore(database, noRing),
      ...createScheduleStore(database, noRing),
      ...createOutboxStore(database, { monotonicMs: () => performance.now() + elapsedMs }),
      ...createPauseStore(database, noRing),
      ...createSlaStore(database, noRing),
      ...createWorkerStore(database),
      ...createCleanupStore(database),
    },
    declareJob: (definition) => declareJobType(database, definition),
    async declareQueue({ name, concurrency, suspended }) {
      await database.query(
        `insert into turno.queues (name, concurrency, suspended) values ($1, $2, $3)
         on conflict (name) do update set concurrency = excluded.concurrency, suspended = excluded.suspended`,
        [name, concurrency, suspended],
      );
    },
    declareSchedule: (schedule) => declareSchedule(database, schedule),
    readJob: (id) => readJob(database, id),
    async countDeadLetters(id) {
      const rows = await database.query("select id from turno.dead_letters where job_id = $1 and status = 'pending'", [
        id,
      ]);
      return rows.length;
    },
    async readFires(schedule) {
      const rows = await database.query<{
        fire_at: Date;
        outcome: string;
        job_id: JobId | null;
        blocked_by: JobId | null;
        older_skips: number;
      }>(
        "select fire_at, outcome, job_id, blocked_by, older_skips::int from turno.schedule_fires where schedule = $1 order by fire_at",
        [schedule],
      );
      return rows.map(
        (row): FireView => ({
          at: row.fire_at,
          outcome: row.outcome,
          jobId: row.job_id,
          blockedBy: row.blocked_by,
          olderSkips: row.older_skips,
        }),
      );
    },
    async readNextFire(schedule) {
      const [row] = await database.query<{ next_fire_at: Date | null }>(
        "select next_fire_at from turno.recurring_jobs where name = $1",
        [schedule],
      );
      return row?.next_fire_at ?? null;
    },
    async now() {
      const [row] = await database.query<{ now: Date }>("select now() as now");
      return (row as { now: Date }).now;
    },
    async elapse(ms) {
      // What waits lies before the last look by then: the next one is at all of it.
      elapsedMs += ms + 5_000;
      await elapse(database, ms);
    },
    async close() {
      await database.close();
      await testDatabase.drop();
    },
  };
}

interface JobRow extends Omit<JobView, "lostUnstarted" | "cancelRequested" | "dueInMs" | "attempts"> {
  readonly lost_unstarted: number;
  readonly cancel_requested: boolean;
  readonly due_in_ms: number;
  readonly attempts: JobView["attempts"];
}

async function readJob(database: Database, id: JobId): Promise<JobView | null> {
  const [row] = await database.query<JobRow>(
    `select state, hold, failures, execution, lost, lost_unstarted, returns, generation,
       cancel_requested_at is not null as cancel_requested, started_at is not null as started, progress, result, error,
       (extract(epoch from run_at - now()) * 1000)::float8 as due_in_ms,
       coalesce((select json_agg(a.outcome order by a.dispatch_id) from turno.job_executions a where a.job_id = j.id), '[]') as attempts
     from turno.jobs j where id = $1`,
    [id],
  );
  if (row === undefined) return null;
  const { lost_unstarted: lostUnstarted, cancel_requested: cancelRequested, due_in_ms: dueInMs, ...rest } = row;
  return { ...rest, lostUnstarted, cancelRequested, dueInMs };
}

/** Moving every instant back by the same time is what the passing of that time looks like to the database. */
async function elapse(database: Database, ms: number): Promise<void> {
  const columns: Readonly<Record<string, readonly string[]>> = {
    jobs_live: ["sort_at", "run_at", "created_at", "enqueued_at", "claimed_at", "started_at", "cancel_requested_at"],
    jobs_final: ["sort_at", "run_at", "created_at", "enqueued_at", "claimed_at", "started_at", "finished_at"],
    recurring_jobs: [
      "next_fire_at",
      "last_fire_at",
      "decided_until",
      "sla_due_at",
      "sla_since",
      "sla_judged_at",
      "sla_success_at",
    ],
    overlays: ["paused_at", "until"],
    schedule_fires: ["fire_at", "decided_at"],
    workers: ["registered_at", "heartbeat_at", "left_at"],
    duties: ["expires_at"],
    counter_deltas: ["at"],
    idempotency_keys: ["created_at", "expires_at"],
    unique_jobs: ["created_at", "expires_at"],
    outbox_message: ["created_at", "due_at"],
    outbox_marker: ["aged_at", "created_at", "consumed_at", "shown_at"],
  };
  for (const [table, names] of Object.entries(columns)) {
    const moves = names.map((name) => `${name} = ${name} - $1::bigint * interval '1 millisecond'`);
    await database.query(`update turno.${table} set ${moves.join(", ")}`, [Math.round(ms)]);
  }
}
