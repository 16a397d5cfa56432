import { CANCELLED_EXPIRY, KEPT_COLUMNS } from "./job-statements.ts";

/**
 * What becomes of waiting jobs when the object that made them, or their type, is removed with `onRemove: cancel`.
 */

/**
 * Scheduled, Enqueued → Cancelled for the jobs of types and those that schedules made, within the transaction of the
 * revision. A job that is claimed meanwhile runs. $1 text[] types · $2 text[] schedules.
 * Rows: the cancelled jobs; \`key\`: what each may have had.
 */
export const CANCEL_WAITING_JOBS = `
with target as (
  select id
  from turno.jobs_live
  where (type = any ($1::text[]) or schedule = any ($2::text[])) and state in ('Scheduled', 'Enqueued')
  order by id
  for update
),
gone as (
  delete from turno.jobs_live j
  using target t
  where j.id = t.id
  returning j.*, ${CANCELLED_EXPIRY} as expires, clock_timestamp() as ended_at
),
finished as (
  insert into turno.jobs_final (final, expires_on, state, finished_at, ${KEPT_COLUMNS})
  select true, expires, 'Cancelled', ended_at, ${KEPT_COLUMNS} from gone
),
changes as (
  insert into turno.job_state_changes_final (job_id, final, expires_on, at, from_state, to_state, reason)
  select g.id, true, g.expires, c.at, c.from_state, c.to_state, c.reason
  from gone g
  cross join lateral (values
    (g.enqueued_at, 'Scheduled', 'Enqueued', g.enqueued_why),
    (g.ended_at, g.state, 'Cancelled', 'removed')) as c (at, from_state, to_state, reason)
  where c.to_state <> 'Enqueued' or (g.state = 'Enqueued' and g.enqueued_why in ('due', 'hold released'))
),
counted as (
  insert into turno.counter_deltas (queue, scheduled, enqueued, cancelled)
  select queue, -count(*) filter (where state = 'Scheduled'), -count(*) filter (where state = 'Enqueued'), count(*)
  from gone
  group by queue
)
select id, case when state = 'Enqueued' then concurrency_key end as key from gone`;

/** $1 text[] types · $2 text[] schedules · $3 the number up to which each is counted. Objects without any are absent. */
export const COUNT_WAITING_JOBS = `
select o.object, counted.jobs
from (
  select 'Job/' || type as object, type, null as schedule from unnest($1::text[]) as t (type)
  union all
  select 'Schedule/' || name, null, name from unnest($2::text[]) as s (name)
) as o
cross join lateral (
  select count(*)::integer as jobs
  from (
    select from turno.jobs_live j
    where (j.type = o.type or j.schedule = o.schedule) and j.state in ('Scheduled', 'Enqueued')
    limit $3
  ) as found
) as counted
where counted.jobs > 0`;
