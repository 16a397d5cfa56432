/** One row for a scrape; nothing here counts a large table, and each list is bounded. $1 int: most queues that are named. */
export const LOAD_FIGURES = `
with counts as (
  select queue, sum(scheduled) as scheduled, sum(enqueued) as enqueued, sum(processing) as processing
  from (
    select queue, scheduled, enqueued, processing from turno.queue_counts
    union all
    select queue, scheduled, enqueued, processing from turno.counter_deltas
  ) as moves
  group by queue
),
ends as (
  select queue, sum(succeeded) as succeeded, sum(failed) as failed, sum(cancelled) as cancelled
  from (
    select queue, succeeded, failed, cancelled from turno.minute_statistics where minute > now() - interval '1 hour'
    union all
    select queue, succeeded, failed, cancelled from turno.counter_deltas where at > now() - interval '1 hour'
  ) as minutes
  group by queue
),
named as (
  select queue
  from (
    select name as queue, 0 as made_up from turno.queues
    union all
    select queue, 1 from counts
    union all
    select queue, 1 from ends
  ) as seen
  group by queue
  order by min(made_up), queue
  limit $1
),
heads as (
  select n.queue, extract(epoch from now() - head.run_at) as seconds
  from named n
  cross join lateral (
    select run_at from turno.jobs_live
    where queue = n.queue and state = 'Enqueued' and not recovered
    order by sort_at, id
    limit 1
  ) as head
),
decided as materialized (
  select outcome, late_ms from turno.schedule_fires
  where decided_at > now() - interval '1 hour'
  order by decided_at desc
  limit 20000
),
alive as (
  select leases_failing, handlers_stuck from turno.workers
  where left_at is null and heartbeat_at > now() - interval '30 seconds'
)
select
  (select jsonb_agg(jsonb_build_object('labels', jsonb_build_array(queue, state), 'value', value) order by queue, state)
   from (
     select case when n.queue is null then 'other' else c.queue end as queue, s.state, sum(s.value) as value
     from counts c
     left join named n on n.queue = c.queue
     cross join lateral (values ('Scheduled', c.scheduled), ('Enqueued', c.enqueued), ('Processing', c.processing)) as s (state, value)
     group by 1, 2
   ) as f) as jobs,
  (select jsonb_agg(jsonb_build_object('labels', jsonb_build_array(queue, state), 'value', value) order by queue, state)
   from (
     select case when n.queue is null then 'other' else e.queue end as queue, s.state, sum(s.value) as value
     from ends e
     left join named n on n.queue = e.queue
     cross join lateral (values ('Succeeded', e.succeeded), ('Failed', e.failed), ('Cancelled', e.cancelled)) as s (state, value)
     group by 1, 2
   ) as f) as ended,
  (select jsonb_agg(jsonb_build_object('labels', jsonb_build_array(queue), 'value', greatest(seconds, 0)) order by queue) from heads) as heads,
  (select jsonb_agg(jsonb_build_object('labels', jsonb_build_array(hold), 'value', value) order by hold)
   from (select hold, count(*) as value from (select hold from turno.jobs_live where hold is not null limit 10000) as held group by hold) as f) as held,
  (select jsonb_agg(jsonb_build_object('labels', jsonb_build_array(outcome), 'value', value) order by outcome)
   from (select outcome, count(*) as value from decided group by outcome) as f) as fires,
  (select coalesce(max(late_ms), 0) / 1000.0 from decided where outcome = 'fired')::float8 as lateness,
  (select jsonb_agg(jsonb_build_object('labels', jsonb_build_array(expectation), 'value', value) order by expectation)
   from (select expectation, count(*) as value from turno.sla_misses where noticed_at > now() - interval '24 hours' group by expectation) as f) as sla_misses,
  (select count(*) from turno.overlays where kind = 'Schedule' and (until is null or until > now()))::int as schedules_paused,
  (select jsonb_agg(jsonb_build_object('labels', jsonb_build_array(status), 'value', value) order by status)
   from (select status, count(*) as value from turno.sync_status group by status) as f) as sync,
  (select coalesce(extract(epoch from now() - min(reached_at)), 0) from turno.sync_status)::float8 as sync_age,
  (select jsonb_agg(jsonb_build_object('labels', jsonb_build_array(duty), 'value', 1) order by duty)
   from turno.duties where expires_at > now()) as leaders,
  (select count(*) from alive)::int as workers,
  (select count(*) from alive where leases_failing)::int as workers_failing,
  (select coalesce(sum(handlers_stuck), 0) from alive)::int as handlers_stuck,
  (select count(*) from (select from turno.outbox_message limit 100000) as m)::int as outbox_messages,
  (select coalesce(extract(epoch from now() - (select created_at from turno.outbox_message order by id limit 1)), 0))::float8 as outbox_oldest,
  (select count(*) from (select from turno.dead_letters where status = 'pending' limit 10000) as letters)::int as dead_letters`;
