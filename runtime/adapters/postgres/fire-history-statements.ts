import { declaration, pauseOf, SHOWN_STATE } from "./panel-statements.ts";
import { INSERT_FIRED, PAYLOADS_AND_COUNTERS } from "./schedule-statements.ts";

/** One schedule in force, with when its declaration was applied. $1 text name. No row: none is declared. */
export const LOAD_SCHEDULE = `
select now() as now, s.name, o.description, s.job_type, t.queue, s.spec, s.timing_hash, s.suspended, s.next_fire_at, s.last_fire_at,
  s.last_job_id, s.awaits_finish, ${declaration("s.object_id")} as source, ${pauseOf("Schedule", "s.name")} as pause, v.applied_at as declared_at
from turno.recurring_jobs s
join turno.objects o on o.id = s.object_id
left join turno.revisions v on v.source = o.source and v.number = o.introduced_in
left join turno.job_types t on t.name = s.job_type and not t.removed
where s.name = $1`;

/** Records of one schedule, newest first. $1 text schedule · $2 timestamptz first instant · $3 timestamptz last instant · $4 int limit. */
export const LIST_RECORDS = `
select f.fire_at, f.outcome, f.job_id, f.late_ms, f.blocked_by, f.decided_at, f.older_skips, ${SHOWN_STATE} as state
from (
  select fire_at, outcome, job_id, late_ms, blocked_by, decided_at, older_skips
  from turno.schedule_fires
  where schedule = $1 and fire_at >= $2 and fire_at <= $3
  order by fire_at desc
  limit $4
) as f
left join turno.jobs j on j.id = f.job_id
order by f.fire_at desc`;

/** Fires of all schedules with their runs, newest first. $1 timestamptz decided since · $2 int limit. */
export const LIST_RUNS = `
select f.schedule, f.fire_at, f.outcome, ${SHOWN_STATE} as state, j.queue, j.started_at, j.finished_at
from (
  select schedule, fire_at, outcome, job_id, decided_at
  from turno.schedule_fires
  where decided_at >= $1
  order by decided_at desc
  limit $2
) as f
left join turno.jobs j on j.id = f.job_id
order by f.decided_at desc`;

/** Locks a schedule as an apply and the scheduler do. $1 text name. No row: none is declared. */
export const LOCK_SCHEDULE = `
select timing_hash from turno.recurring_jobs where name = $1 for update`;

/**
 * Fires of past instants: new ones, and those whose record says that they were skipped. What has fired is left alone.
 * Under Forbid and Queue each run waits (held, overlap) for those before it. The schedule is locked before.
 * $1 text schedule · $2 timestamptz[] instants · $3 uuid[] job ids, in the same order.
 * Rows: one for each job that was made; those with a key wait for takeKeys.
 */
export const BACKFILL = `
with chosen as (
  select r.name, r.job_type, r.object_id, r.spec from turno.recurring_jobs r where r.name = $1
),
wanted as (
  select c.name, f.fire_at, f.job_id, c.job_type, c.object_id, c.spec -> 'payload' as payload, c.spec ->> 'concurrencyKey' as concurrency_key,
    case when c.spec ->> 'concurrencyPolicy' in ('Forbid', 'Queue') then 'wait' else 'run' end as verdict, 0 as delay_ms
  from chosen c
  cross join unnest($2::timestamptz[], $3::uuid[]) as f (fire_at, job_id)
),
fired as (
  insert into turno.schedule_fires as f (schedule, fire_at, outcome, job_id, late_ms)
  select name, fire_at, 'backfill', job_id, greatest(0, extract(epoch from now() - fire_at) * 1000)::bigint from wanted
  on conflict (schedule, fire_at) do update
  set outcome = excluded.outcome, job_id = excluded.job_id, late_ms = excluded.late_ms, blocked_by = null, decided_at = now()
  where f.outcome in ('missed', 'superseded', 'overlapped', 'calendar')
  returning schedule, fire_at, job_id, late_ms
),
made as (${INSERT_FIRED}
),${PAYLOADS_AND_COUNTERS}
select m.id, m.queue, m.key, m.state, f.fire_at from made m join fired f on f.job_id = m.id order by f.fire_at`;
