/**
 * Due by the database's clock, which comes along: a single row without a name when nothing is. $1 limit.
 * Ordered as the index is: at the top of an hour many share one instant.
 */
export const LOAD_DUE_SCHEDULES = `
select clock.now, due.*
from (select now() as now) as clock
left join (
  select name, spec, timing_hash, next_fire_at
  from turno.recurring_jobs
  where not suspended and next_fire_at <= now()
  order by next_fire_at
  limit $1
) as due on true`;

/** The columns of a job that a schedule makes; run at once, whatever instant it fires for. */
const INSERT_FIRED = `
  insert into turno.jobs_live (id, type, queue, state, payload, payload_external, dispatch_id, sort_at, run_at, enqueued_at, enqueued_why, schedule, fire_at, fire_late_ms, object_id)
  select f.job_id, w.job_type, y.queue, 'Enqueued',
    case when octet_length(w.payload::text) > 2048 then null else w.payload end, octet_length(w.payload::text) > 2048,
    nextval('turno.dispatch_seq'), now(), now(), now(), 'created', f.schedule, f.fire_at, f.late_ms, w.object_id`;

/**
 * Whether this statement's snapshot is as new as the locked row of a schedule. When somebody has fired it meanwhile, it is not:
 * the row is their new one, and their job is nowhere to be seen, so overlap could not be judged.
 */
const showsLastJob = (row: string): string =>
  `${row}.last_job_id is not distinct from (select shown.last_job_id from turno.recurring_jobs shown where shown.name = ${row}.name)`;

const PAYLOADS_AND_COUNTERS = `
payloads as (
  insert into turno.job_payloads (job_id, payload)
  select f.job_id, w.payload from fired f join wanted w on w.job_id = f.job_id where octet_length(w.payload::text) > 2048
),
counted as (
  insert into turno.counter_deltas (queue, enqueued) select queue, count(*) from made group by queue
)`;

/**
 * One step of many schedules: the compare-and-set of the next fire, the fires (unique by schedule and instant) and their
 * jobs, in one statement. Schedules are locked by name, as an apply locks them. With Forbid a fire is recorded as overlapped while a job of the schedule is on its way.
 * Steps: $1 text[] names · $2 timestamptz[] expected next fires · $3 text[] expected timing hashes · $4 timestamptz[] next fires
 * Fires: $5 text[] names · $6 timestamptz[] instants · $7 uuid[] job ids
 * Skips: $8 text[] names · $9 timestamptz[] instants · $10 text[] reasons · $11 bigint[] older ones without a row of their own
 * Rows: one for each schedule that moved on, and one for each of its fires with its outcome; a schedule without rows was stale.
 */
export const APPLY_STEPS = `
with step as (
  select * from unnest($1::text[], $2::timestamptz[], $3::text[], $4::timestamptz[]) as s (name, expected, timing, next)
),
fire as (
  select * from unnest($5::text[], $6::timestamptz[], $7::uuid[]) as f (name, fire_at, job_id)
),
skip as (
  select * from unnest($8::text[], $9::timestamptz[], $10::text[], $11::bigint[]) as k (name, fire_at, reason, older)
),
locked as (
  select r.name, r.job_type, r.object_id, r.spec, s.next
  from turno.recurring_jobs r
  join step s on s.name = r.name
  where not r.suspended and r.timing_hash = s.timing
    -- What a scheduler has read has milliseconds.
    and date_trunc('milliseconds', r.next_fire_at) is not distinct from s.expected
    and ${showsLastJob("r")}
  order by r.name
  for update of r
),
blocker as (
  select distinct on (j.schedule) j.schedule, j.id
  from turno.jobs_live j
  where j.schedule = any (array(select name from locked where spec ->> 'concurrencyPolicy' = 'Forbid'))
  order by j.schedule, j.id
),
wanted as (
  select f.name, f.fire_at, f.job_id, l.job_type, l.object_id, l.spec -> 'payload' as payload, l.spec ->> 'concurrencyPolicy' = 'Forbid' as forbid,
    b.id as blocked_by, row_number() over (partition by f.name order by f.fire_at desc) as place,
    first_value(f.job_id) over (partition by f.name order by f.fire_at desc) as newest
  from fire f
  join locked l on l.name = f.name
  left join blocker b on b.schedule = f.name
),
decided as (
  insert into turno.schedule_fires (schedule, fire_at, outcome, job_id, blocked_by, late_ms, older_skips)
  select name, fire_at,
    case when forbid and (blocked_by is not null or place > 1) then 'overlapped' else 'fired' end,
    case when forbid and (blocked_by is not null or place > 1) then null else job_id end,
    case when forbid then coalesce(blocked_by, case when place > 1 then newest end) end,
    greatest(0, extract(epoch from now() - fire_at) * 1000)::bigint, 0
  from wanted
  union all
  select k.name, k.fire_at, k.reason, null, null, greatest(0, extract(epoch from now() - k.fire_at) * 1000)::bigint, k.older
  from skip k
  join locked l on l.name = k.name
  on conflict (schedule, fire_at) do nothing
  returning schedule, fire_at, outcome, job_id, blocked_by, late_ms
),
fired as (
  select * from decided where outcome = 'fired'
),
made as (${INSERT_FIRED}
  from fired f
  join wanted w on w.job_id = f.job_id
  join turno.job_types y on y.name = w.job_type
  returning id, queue
),${PAYLOADS_AND_COUNTERS},
moved as (
  update turno.recurring_jobs r
  set next_fire_at = l.next,
    last_fire_at = coalesce((select max(f.fire_at) from fired f where f.schedule = r.name), r.last_fire_at),
    last_job_id = coalesce((select d.job_id from fired d where d.schedule = r.name order by d.fire_at desc limit 1),
      (select b.id from blocker b where b.schedule = r.name), r.last_job_id),
    awaits_finish = l.next is null and l.spec #>> '{timing,from}' = 'finish'
  from locked l
  where r.name = l.name
  returning r.name
)
select name, null::timestamptz as fire_at, null as outcome, null::uuid as blocked_by, null as queue from moved
union all
select d.schedule, d.fire_at, d.outcome, d.blocked_by, m.queue from decided d left join made m on m.id = d.job_id`;

/** \`every … from: finish\`: the next fire of schedules whose last run has left the live states. */
export const WAKE_FINISHED = `
with ended as (
  select r.name
  from turno.recurring_jobs r
  where r.awaits_finish and not exists (select from turno.jobs_live j where j.schedule = r.name)
  for update skip locked
)
update turno.recurring_jobs r
set awaits_finish = false,
  next_fire_at = date_trunc('milliseconds', coalesce((select f.finished_at from turno.jobs_final f where f.id = r.last_job_id), now()))
    + (r.spec #>> '{timing,intervalMs}')::bigint * interval '1 millisecond'
from ended e
where r.name = e.name
returning r.name`;

export const ON_START_BATCH = 1_000;

/** Schedules that are to fire since the installation has started cold. */
export const LOAD_ON_START = `
select r.name
from turno.recurring_jobs r, turno.installation i
where r.fired_cold_start < i.cold_starts and not r.suspended and (r.spec ->> 'runOnStart')::boolean
order by r.fired_cold_start
limit ${ON_START_BATCH}`;

const fireNow = (options: { readonly chosen: string; readonly outcome: string; readonly blocked: string }): string => `
with chosen as (${options.chosen}
),
wanted as (
  select c.name, i.job_id, c.job_type, c.object_id, c.spec -> 'payload' as payload
  from chosen c
  join unnest($1::text[], $2::uuid[]) as i (name, job_id) on i.name = c.name
  where ${options.blocked}
),
fired as (
  insert into turno.schedule_fires (schedule, fire_at, outcome, job_id)
  select name, date_trunc('milliseconds', clock_timestamp()), '${options.outcome}', job_id from wanted
  on conflict (schedule, fire_at) do nothing
  returning schedule, fire_at, job_id, late_ms
),
made as (${INSERT_FIRED}
  from fired f
  join wanted w on w.job_id = f.job_id
  join turno.job_types y on y.name = w.job_type
  returning id, queue
),${PAYLOADS_AND_COUNTERS},
noted as (
  update turno.recurring_jobs r
  set last_job_id = coalesce(f.job_id, r.last_job_id), last_fire_at = coalesce(f.fire_at, r.last_fire_at), fired_cold_start = c.cold_start
  from chosen c
  left join fired f on f.schedule = c.name
  where r.name = c.name
)
select id, queue from made`;

/** Fires once for the present cold start, unless a run is still on its way. $1 text[] names · $2 uuid[] job ids. */
export const FIRE_ON_START = fireNow({
  chosen: `
  select r.name, r.job_type, r.object_id, r.spec, i.cold_starts as cold_start
  from turno.recurring_jobs r
  cross join turno.installation i
  where r.name = any ($1::text[]) and r.fired_cold_start < i.cold_starts and not r.suspended
    and ${showsLastJob("r")}
  order by r.name
  for update of r`,
  outcome: "on-start",
  blocked:
    "c.spec ->> 'concurrencyPolicy' <> 'Forbid' or not exists (select from turno.jobs_live j where j.schedule = c.name)",
});

/** Fires by hand, whatever the timing and the overlap policy. $1 text[] name · $2 uuid[] job id. Empty: no such schedule. */
export const TRIGGER_SCHEDULE = fireNow({
  chosen: `
  select r.name, r.job_type, r.object_id, r.spec, r.fired_cold_start as cold_start
  from turno.recurring_jobs r
  where r.name = any ($1::text[])
  for update`,
  outcome: "manual",
  blocked: "true",
});

/** Scheduled → Enqueued for what is due; a claim that was given back comes back as if it had not been away. $1 limit. */
export const PROMOTE_DUE = `
with due as (
  select id from turno.jobs_live
  where state = 'Scheduled' and hold is null and run_at <= now()
  order by run_at
  limit $1
  for update skip locked
),
promoted as (
  update turno.jobs_live j
  set state = 'Enqueued', dispatch_id = nextval('turno.dispatch_seq'), 
    enqueued_at = coalesce(j.enqueued_at, clock_timestamp()), enqueued_why = coalesce(j.enqueued_why, 'due')
  from due d
  where j.id = d.id
  returning j.queue
),
counted as (
  insert into turno.counter_deltas (queue, scheduled, enqueued) select queue, -count(*), count(*) from promoted group by queue
)
select queue, count(*)::int as jobs from promoted group by queue`;

/**
 * Scheduled (held no-handler) → Enqueued when a live worker takes the job's queue and can load the bundle in force. $1 limit.
 * Looked at by type, with one step in the index for each: jobs that stay held cost nothing, however many they are.
 */
export const RELEASE_UNHANDLED = `
with recursive kinds as (
  select min(type) as type from turno.jobs_live where hold = 'no-handler'
  union all
  select (select min(type) from turno.jobs_live where hold = 'no-handler' and type > k.type) from kinds k where k.type is not null
),
able as (
  select t.name as type, q ->> 'name' as queue
  from kinds k
  join turno.job_types t on t.name = k.type
  join turno.job_definitions d on d.hash = t.definition_hash
  join turno.workers w on w.left_at is null and not w.draining and w.heartbeat_at > now() - interval '30 seconds'
    and not coalesce(d.definition ->> 'bundleHash', '') = any (w.unloadable_bundles)
  cross join jsonb_array_elements(w.queues) as q
),
releasable as (
  select j.id
  from turno.jobs_live j
  where j.hold = 'no-handler' and j.type = any (array(select type from able))
    and exists (select from able where able.type = j.type and able.queue = j.queue)
  limit $1
  for update of j skip locked
),
promoted as (
  update turno.jobs_live j
  set state = 'Enqueued', hold = null, dispatch_id = nextval('turno.dispatch_seq'), enqueued_at = clock_timestamp(), enqueued_why = 'hold released'
  from releasable r
  where j.id = r.id
  returning j.queue
),
counted as (
  insert into turno.counter_deltas (queue, scheduled, enqueued) select queue, -count(*), count(*) from promoted group by queue
)
select queue, count(*)::int as jobs from promoted group by queue`;

/** Milliseconds to the next job or schedule that is due; null when nothing is planned. */
export const NEXT_DUE = `
select (extract(epoch from least(
  (select min(run_at) from turno.jobs_live where state = 'Scheduled' and hold is null),
  (select min(next_fire_at) from turno.recurring_jobs where not suspended and next_fire_at is not null)) - now()) * 1000)::float8 as ms`;
