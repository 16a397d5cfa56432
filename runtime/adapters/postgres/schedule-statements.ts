/**
 * Due by the database's clock, which comes along: a single row without a name when nothing is. $1 limit.
 * Ordered as the index is: at the top of an hour many share one instant.
 */
export const LOAD_DUE_SCHEDULES = `
select clock.now, due.*
from (select now() as now) as clock
left join (
  select name, spec, timing_hash, next_fire_at, decided_until
  from turno.recurring_jobs
  where not suspended and next_fire_at <= now()
  order by next_fire_at
  limit $1
) as due on true`;

/**
 * A job that a schedule makes: run at once, or due after its jitter, or held while another run is in its way (overlap), or in line for
 * its concurrency key (key): then takeKeys is to be called.
 */
export const INSERT_FIRED = `
  insert into turno.jobs_live (id, type, queue, state, hold, concurrency_key, payload, payload_external, dispatch_id, sort_at, run_at, enqueued_at, enqueued_why, schedule, fire_at, fire_late_ms, object_id)
  select f.job_id, w.job_type, y.queue, case when s.start = 'now' then 'Enqueued' else 'Scheduled' end, case when s.start in ('key', 'overlap') then s.start end, w.concurrency_key,
    case when octet_length(w.payload::text) > 2048 then null else w.payload end, octet_length(w.payload::text) > 2048,
    case when s.start = 'now' then nextval('turno.dispatch_seq') end, d.run_at, d.run_at,
    case when s.start = 'now' then now() end, case when s.start = 'now' then 'created' end, f.schedule, f.fire_at, f.late_ms, w.object_id
  from fired f
  join wanted w on w.job_id = f.job_id
  join turno.job_types y on y.name = w.job_type
  cross join lateral (
    select case when w.delay_ms > 0 then greatest(now(), f.fire_at + w.delay_ms * interval '1 millisecond') else now() end as run_at) as d
  cross join lateral (
    select case when w.verdict = 'wait' then 'overlap' when d.run_at > now() then 'later' when w.concurrency_key is not null then 'key' else 'now' end as start) as s
  returning id, queue, state, case when hold = 'key' then concurrency_key end as key`;

/**
 * Whether this statement's snapshot is as new as the locked row of a schedule. When somebody has fired it meanwhile, it is not:
 * the row is their new one, and their job is nowhere to be seen, so overlap could not be judged.
 */
const showsLastJob = (row: string): string =>
  `${row}.last_job_id is not distinct from (select shown.last_job_id from turno.recurring_jobs shown where shown.name = ${row}.name)`;

export const PAYLOADS_AND_COUNTERS = `
payloads as (
  insert into turno.job_payloads (job_id, payload)
  select f.job_id, w.payload from fired f join wanted w on w.job_id = f.job_id where octet_length(w.payload::text) > 2048
),
counted as (
  insert into turno.counter_deltas (queue, scheduled, enqueued)
  select queue, count(*) filter (where state = 'Scheduled'), count(*) filter (where state = 'Enqueued') from made group by queue
)`;

/**
 * One step of many schedules: the compare-and-set of the next fire, the fires (unique by schedule and instant) and their
 * jobs, in one statement. Schedules are locked by name, as an apply locks them. What the overlap policy does with a fire
 * while jobs of the schedule are on their way is its verdict: run, wait (held), or skip (recorded as overlapped).
 * Steps: $1 text[] names · $2 timestamptz[] expected next fires · $3 text[] expected timing hashes · $4 timestamptz[] next fires
 * Fires: $5 text[] names · $6 timestamptz[] instants · $7 uuid[] job ids · $12 bigint[] milliseconds after the instant
 * Skips: $8 text[] names · $9 timestamptz[] instants · $10 text[] reasons · $11 bigint[] older ones without a row of their own
 * Rows: one for each schedule that moved on, and one for each of its fires with its outcome; a schedule without rows was stale.
 */
export const APPLY_STEPS = `
with step as (
  select * from unnest($1::text[], $2::timestamptz[], $3::text[], $4::timestamptz[]) as s (name, expected, timing, next)
),
fire as (
  select * from unnest($5::text[], $6::timestamptz[], $7::uuid[], $12::bigint[]) as f (name, fire_at, job_id, delay_ms)
),
skip as (
  select * from unnest($8::text[], $9::timestamptz[], $10::text[], $11::bigint[]) as k (name, fire_at, reason, older)
),
locked as (
  select r.name, r.job_type, r.object_id, r.spec, r.spec ->> 'concurrencyPolicy' as policy, s.next
  from turno.recurring_jobs r
  join step s on s.name = r.name
  where not r.suspended and r.timing_hash = s.timing
    -- What a scheduler has read has milliseconds.
    and date_trunc('milliseconds', r.next_fire_at) is not distinct from s.expected
    and ${showsLastJob("r")}
  order by r.name
  for update of r
),
standing as (
  select j.schedule, (array_agg(j.id order by j.id))[1] as blocker, (array_agg(j.id order by j.id) filter (where j.hold = 'overlap'))[1] as waiting
  from turno.jobs_live j
  where j.schedule = any (array(select name from locked where policy <> 'Allow'))
  group by j.schedule
),
placed as (
  select f.name, f.fire_at, f.job_id, f.delay_ms, l.job_type, l.object_id, l.spec -> 'payload' as payload, l.spec ->> 'concurrencyKey' as concurrency_key,
    l.policy, s.blocker, s.waiting, row_number() over (partition by f.name order by f.fire_at) as place, count(*) over (partition by f.name) as fires,
    first_value(f.job_id) over oldest as first, nth_value(f.job_id, 2) over oldest as second, last_value(f.job_id) over oldest as newest
  from fire f
  join locked l on l.name = f.name
  left join standing s on s.schedule = f.name
  window oldest as (partition by f.name order by f.fire_at rows between unbounded preceding and unbounded following)
),
wanted as (
  select p.*,
    case p.policy
      when 'Allow' then 'run'
      when 'Queue' then case
        when p.blocker is null and p.place = 1 then 'run'
        when p.waiting is null and p.place = case when p.blocker is null then 2 else 1 end then 'wait'
        else 'skip' end
      when 'Replace' then case when p.place < p.fires then 'skip' when p.blocker is null then 'run' else 'wait' end
      else case when p.blocker is null and p.place = p.fires then 'run' else 'skip' end
    end as verdict,
    case p.policy
      when 'Queue' then coalesce(p.waiting, case when p.blocker is null then p.second else p.first end)
      when 'Replace' then p.newest
      else coalesce(p.blocker, p.newest)
    end as in_the_way
  from placed p
),
decided as (
  insert into turno.schedule_fires (schedule, fire_at, outcome, job_id, blocked_by, late_ms, older_skips, decided_at)
  select name, fire_at, case when verdict = 'skip' then 'overlapped' else 'fired' end, case when verdict = 'skip' then null else job_id end,
    case verdict when 'skip' then in_the_way when 'wait' then coalesce(blocker, first) end,
    greatest(0, extract(epoch from now() - fire_at) * 1000)::bigint, 0,
    -- Not now(), which is before this statement saw how runs have ended.
    clock_timestamp()
  from wanted
  union all
  select k.name, k.fire_at, k.reason, null, null, greatest(0, extract(epoch from now() - k.fire_at) * 1000)::bigint, k.older, clock_timestamp()
  from skip k
  join locked l on l.name = k.name
  on conflict (schedule, fire_at) do nothing
  returning schedule, fire_at, outcome, job_id, blocked_by, late_ms
),
fired as (
  select * from decided where outcome = 'fired'
),
made as (${INSERT_FIRED}
),${PAYLOADS_AND_COUNTERS},
moved as (
  update turno.recurring_jobs r
  set next_fire_at = l.next,
    last_fire_at = coalesce((select max(f.fire_at) from fired f where f.schedule = r.name), r.last_fire_at),
    last_job_id = coalesce((select d.job_id from fired d where d.schedule = r.name order by d.fire_at desc limit 1),
      (select s.blocker from standing s where s.schedule = r.name and l.policy = 'Forbid'), r.last_job_id),
    decided_until = now(),
    awaits_finish = l.next is null and l.spec #>> '{timing,from}' = 'finish' and exists (select from fire f where f.name = l.name)
  from locked l
  where r.name = l.name
  returning r.name
)
select name, null::timestamptz as fire_at, null as outcome, null::uuid as blocked_by, null as queue, null as key from moved
union all
select d.schedule, d.fire_at, d.outcome, d.blocked_by, case when m.state = 'Enqueued' or m.key is not null then m.queue end, m.key
from decided d
left join made m on m.id = d.job_id`;

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
select r.name, r.spec, now() as now
from turno.recurring_jobs r, turno.installation i
where r.fired_cold_start < i.cold_starts and not r.suspended and (r.spec ->> 'runOnStart')::boolean
order by r.fired_cold_start
limit ${ON_START_BATCH}`;

const fireNow = (options: { readonly chosen: string; readonly outcome: string; readonly blocked: string }): string => `
with chosen as (${options.chosen}
),
wanted as (
  select c.name, i.job_id, c.job_type, c.object_id, c.spec -> 'payload' as payload, c.spec ->> 'concurrencyKey' as concurrency_key, 'run' as verdict, 0 as delay_ms
  from chosen c
  join unnest($1::text[], $2::uuid[]) as i (name, job_id) on i.name = c.name
  where i.job_id is not null and (${options.blocked})
),
fired as (
  insert into turno.schedule_fires (schedule, fire_at, outcome, job_id)
  select name, date_trunc('milliseconds', clock_timestamp()), '${options.outcome}', job_id from wanted
  on conflict (schedule, fire_at) do nothing
  returning schedule, fire_at, job_id, late_ms
),
made as (${INSERT_FIRED}
),${PAYLOADS_AND_COUNTERS},
noted as (
  update turno.recurring_jobs r
  set last_job_id = coalesce(f.job_id, r.last_job_id), last_fire_at = coalesce(f.fire_at, r.last_fire_at), fired_cold_start = c.cold_start
  from chosen c
  left join fired f on f.schedule = c.name
  where r.name = c.name
)
select id, queue, key from made`;

/**
 * Fires once for the present cold start, unless a run is still on its way.
 * $1 text[] names · $2 uuid[] job ids; null: it is done with the start, and does not fire.
 */
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
    "c.spec ->> 'concurrencyPolicy' = 'Allow' or not exists (select from turno.jobs_live j where j.schedule = c.name)",
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

/** A job that leaves another wait: into its queue, or in line for its concurrency key, and then takeKeys is to be called. */
const intoQueue = (enqueuedAt: string, why: string): string => `
  set state = case when j.concurrency_key is null then 'Enqueued' else 'Scheduled' end, hold = case when j.concurrency_key is not null then 'key' end,
    dispatch_id = case when j.concurrency_key is null then nextval('turno.dispatch_seq') end,
    enqueued_at = case when j.concurrency_key is null then ${enqueuedAt} end, enqueued_why = case when j.concurrency_key is null then ${why} end`;

/** A row a queue: how many moved on, whether some came into it, and the keys that others of them wait for. */
const MOVED_ON = `
counted as (
  insert into turno.counter_deltas (queue, scheduled, enqueued) select queue, -count(*), count(*) from promoted where concurrency_key is null group by queue
)
select queue, count(*)::int as jobs, bool_or(concurrency_key is null) as runnable,
  coalesce(json_agg(distinct concurrency_key) filter (where concurrency_key is not null), '[]') as keys
from promoted
group by queue`;

/**
 * Jobs that the newest held run of a Replace schedule comes in place of, and that nobody has asked to end. $1 limit.
 * No row: nothing is to be cancelled.
 */
export const FIND_REPLACED = `
with newest as (
  select distinct on (j.schedule) j.id, j.schedule, j.created_at
  from turno.jobs_live j
  join turno.recurring_jobs r on r.name = j.schedule
  where j.hold = 'overlap' and r.spec ->> 'concurrencyPolicy' = 'Replace'
  order by j.schedule, j.created_at desc, j.id desc
)
select o.id
from newest n
join turno.jobs_live o on o.schedule = n.schedule and o.id <> n.id and o.created_at <= n.created_at
where o.cancel_requested_at is null
limit $1`;

/**
 * Scheduled (held overlap) → Enqueued, or Scheduled until its time, when no run of its schedule from before it is on its way. $1 limit.
 * It looks at what is, so a crash before it costs one look.
 */
export const RELEASE_OVERLAPS = `
with free as (
  select j.id, j.run_at > now() as later
  from turno.jobs_live j
  where j.hold = 'overlap' and not exists (
    select from turno.jobs_live o
    where o.schedule = j.schedule and o.id <> j.id and (o.created_at, o.id) < (j.created_at, j.id))
  limit $1
  for update of j skip locked
),
delayed as (
  update turno.jobs_live j set hold = null from free f where j.id = f.id and f.later
),
promoted as (
  update turno.jobs_live j${intoQueue("clock_timestamp()", "'hold released'")}
  from free f
  where j.id = f.id and not f.later
  returning j.queue, j.concurrency_key
),${MOVED_ON}`;

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
  update turno.jobs_live j${intoQueue("coalesce(j.enqueued_at, clock_timestamp())", "coalesce(j.enqueued_why, 'due')")}
  from due d
  where j.id = d.id
  returning j.queue, j.concurrency_key
),${MOVED_ON}`;

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
  update turno.jobs_live j${intoQueue("clock_timestamp()", "'hold released'")}
  from releasable r
  where j.id = r.id
  returning j.queue, j.concurrency_key
),${MOVED_ON}`;

/** Milliseconds to the next job or schedule that is due; null when nothing is planned. */
export const NEXT_DUE = `
select (extract(epoch from least(
  (select min(run_at) from turno.jobs_live where state = 'Scheduled' and hold is null),
  (select min(next_fire_at) from turno.recurring_jobs where not suspended and next_fire_at is not null)) - now()) * 1000)::float8 as ms`;
