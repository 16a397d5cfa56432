/** What is expected of schedules: what is due to be judged, and what came of it. */

/**
 * Due by the database's clock, which comes along: a single row without a name when nothing is. $1 limit.
 * Successes are those of the newest fires whose jobs are still there.
 */
export const LOAD_DUE_SLAS = `
select clock.now, due.*
from (select now() as now) as clock
left join (
  select r.name, r.spec, r.sla_due_at, coalesce(r.sla_judged_at, r.sla_due_at) as judged_until, coalesce(r.sla_since, r.updated_at) as since,
    r.sla_success_at, s.successes
  from turno.recurring_jobs r
  cross join lateral (
    select coalesce(json_agg(json_build_object('finishedAt', j.finished_at, 'firedFor', f.fire_at) order by f.fire_at desc), '[]') as successes
    from (
      select job_id, fire_at
      from turno.schedule_fires
      where schedule = r.name and job_id is not null
      order by fire_at desc
      limit 50
    ) as f
    join turno.jobs_final j on j.id = f.job_id and j.state = 'Succeeded'
  ) as s
  where not r.suspended and r.sla_due_at <= now()
  order by r.sla_due_at
  limit $1
) as due on true`;

/**
 * $1 name · $2 expected due at · $3 next due at · $4 last success at · $5 text[] expectations · $6 timestamptz[] due at · $7 uuid[] jobs.
 * Rows: the misses that are new, with the job that tells of them. No row: none is, or the schedule was judged by somebody else.
 */
export const RECORD_SLA = `
with judged as (
  update turno.recurring_jobs r
  set sla_due_at = $3::timestamptz, sla_judged_at = now(), sla_success_at = $4::timestamptz
  where r.name = $1::text and date_trunc('milliseconds', r.sla_due_at) = $2::timestamptz
  returning r.name, r.object_id, r.spec #>> '{sla,notify}' as notify
),
missed as (
  insert into turno.sla_misses (schedule, expectation, due_at, job_id)
  select j.name, m.expectation, m.due_at, case when y.name is not null then m.job_id end
  from judged j
  cross join unnest($5::text[], $6::timestamptz[], $7::uuid[]) as m (expectation, due_at, job_id)
  left join turno.job_types y on y.name = j.notify and not y.removed
  on conflict (schedule, expectation, due_at) do nothing
  returning schedule, expectation, due_at, job_id
),
made as (
  insert into turno.jobs_live (id, type, queue, state, payload, dispatch_id, sort_at, run_at, enqueued_at, enqueued_why, object_id)
  select m.job_id, y.name, y.queue, 'Enqueued',
    jsonb_build_object('schedule', m.schedule, 'expectation', m.expectation,
      'dueAt', to_char(m.due_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'lastSuccessAt', to_char($4::timestamptz at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
    nextval('turno.dispatch_seq'), now(), now(), now(), 'created', j.object_id
  from missed m
  join judged j on true
  join turno.job_types y on y.name = j.notify
  where m.job_id is not null
  returning id, queue
),
counted as (
  insert into turno.counter_deltas (queue, enqueued) select queue, count(*) from made group by queue
)
select m.expectation, m.due_at, m.job_id, made.queue from missed m left join made on made.id = m.job_id order by m.due_at`;
