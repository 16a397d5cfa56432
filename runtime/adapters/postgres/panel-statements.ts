/**
 * Reading for the API and the panel: figures, fleet, schedules and files; jobs are in panel-job-statements.ts. Nothing
 * here counts a large table: figures come from counters that are folded by the leader plus the deltas that are not
 * folded yet.
 */

/** A worker without a heartbeat for longer is shown as silent. */
const SILENT_AFTER = `interval '30 seconds'`;

/** What clocks differ by that are kept in time by nobody. */
const SHOWN_SKEW_MS = 5_000;

/** A watched folder is looked at twice a minute. */
const UNWATCHED_AFTER = `interval '2 minutes'`;

/** Moves between live states and ends of executions that the leader has not folded yet. */
const LIVE_COUNTS = `
  select queue, sum(scheduled) as scheduled, sum(enqueued) as enqueued, sum(processing) as processing
  from (
    select queue, scheduled, enqueued, processing from turno.queue_counts
    union all
    select queue, scheduled, enqueued, processing from turno.counter_deltas
  ) as moves
  group by queue`;

/** Minutes since `from`, by queue, folded or not. */
const minutesSince = (from: string) => `
  select minute, queue, succeeded, failed, cancelled, executions, failures, ran_ms
  from turno.minute_statistics
  where minute > ${from}
  union all
  select date_trunc('minute', at), queue, succeeded, failed, cancelled, executions, failures, ran_ms
  from turno.counter_deltas
  where at > ${from}`;

/** Executions that have started; claimed jobs that wait for a slot count as queued. */
const RUNNING = `
  select id, type, queue, worker_id, dispatch_id, started_at, progress, progress_message, timeout_ms, cancel_requested_at
  from turno.jobs_live
  where state = 'Processing' and started_at is not null`;

/** The place in the files behind an object id, as jsonb; null when there is none. */
export const declaration = (objectId: string) => `
  (select jsonb_build_object('revision', o.introduced_in, 'file', o.file, 'line', o.line, 'commit', r.commit_id, 'author', r.author)
   from turno.objects o
   left join turno.revisions r on r.source = o.source and r.number = o.introduced_in
   where o.id = ${objectId})`;

/** State as people see it. */
export const SHOWN_STATE = `case when j.state = 'Processing' and j.started_at is null then 'Enqueued' else j.state end`;

/** One row: fingerprints of what pages show. */
export const LOAD_PULSE = `
with counts as (${LIVE_COUNTS}),
running as (${RUNNING} limit 2000)
select
  md5(concat_ws('|',
    (select string_agg(concat_ws(',', queue, scheduled, enqueued, processing), ';' order by queue) from counts),
    (select max(id) from turno.counter_deltas),
    (select string_agg(concat_ws(',', id, dispatch_id, progress, progress_message, cancel_requested_at), ';' order by id) from running),
    (select concat_ws(',', count(*), sum(extract(epoch from next_fire_at)), max(last_fire_at)) from turno.recurring_jobs)
  )) as jobs,
  md5(coalesce(
    (select string_agg(concat_ws(',', id, draining, heartbeat_at < now() - ${SILENT_AFTER}, cardinality(unloadable_bundles), handlers_stuck, leases_failing), ';' order by id)
     from turno.workers where left_at is null), '')) as workers,
  md5(concat_ws('|',
    (select concat_ws(',', count(*), max(applied_at)) from turno.revisions),
    (select string_agg(concat_ws(',', source, ok, problems, checked_at < now() - ${UNWATCHED_AFTER}), ';' order by source) from turno.sync_status),
    (select count(*) filter (where suspended) from turno.recurring_jobs),
    (select count(*) filter (where suspended) from turno.queues))) as sync`;

/** One row with every figure of the overview; \`minutes\` is the last hour, oldest first. */
export const LOAD_STATISTICS = `
with counts as (
  select sum(scheduled) as scheduled, sum(enqueued) as enqueued, sum(processing) as processing from (${LIVE_COUNTS}) as by_queue
),
running as (
  select count(*) as started from (${RUNNING}) as r
),
minutes as materialized (${minutesSince("now() - interval '24 hours'")}),
day as (
  select coalesce(sum(succeeded), 0) as succeeded, coalesce(sum(failed), 0) as failed, coalesce(sum(cancelled), 0) as cancelled,
    coalesce(sum(executions), 0) as executions, sum(ran_ms) / nullif(sum(executions), 0) as mean_ms
  from minutes
),
hour as (
  select m.minute, coalesce(sum(s.executions - s.failures), 0) as succeeded, coalesce(sum(s.failures), 0) as failed
  from generate_series(date_trunc('minute', now()) - interval '59 minutes', date_trunc('minute', now()), interval '1 minute') as m (minute)
  left join minutes s on s.minute = m.minute
  group by m.minute
),
staff as (
  select count(*) as workers,
    coalesce(sum((select sum((q ->> 'concurrency')::int) from jsonb_array_elements(w.queues) q)), 0) as slots
  from turno.workers w
  where left_at is null and heartbeat_at > now() - ${SILENT_AFTER}
)
select now() as now, counts.scheduled, counts.enqueued, counts.processing, running.started, staff.workers, staff.slots,
  (select count(*) from (select from turno.dead_letters where status = 'pending' limit 10000) as letters) as dead_letters,
  day.succeeded, day.failed, day.cancelled, day.executions, day.mean_ms,
  (select jsonb_agg(jsonb_build_object('minute', minute, 'succeeded', succeeded, 'failed', failed) order by minute) from hour) as minutes
from counts, running, day, staff`;

/** Workers that have not left, oldest first, each with what it runs. */
export const LIST_WORKERS = `
with running as (${RUNNING} limit 10000)
select now() as now, w.id, w.name, w.host, w.pid, w.version, w.queues, w.registered_at, w.heartbeat_at,
  cardinality(w.unloadable_bundles) as unloadable, w.unloadable_bundles, w.clock_skew_ms, w.handlers_cut_off, w.handlers_stuck, w.leases_failing,
  case when w.heartbeat_at < now() - ${SILENT_AFTER} then 'silent' when w.draining then 'draining' else 'live' end as status,
  array(select duty from turno.duties d where d.worker_id = w.id and d.expires_at > now() order by duty) as duties,
  (select jsonb_agg(jsonb_build_object(
      'id', r.id, 'type', r.type, 'queue', r.queue, 'startedAt', r.started_at, 'progress', r.progress,
      'progressMessage', r.progress_message, 'cancelRequested', r.cancel_requested_at is not null,
      'timeoutMs', coalesce(r.timeout_ms, (d.definition ->> 'timeoutMs')::bigint)) order by r.started_at, r.id)
   from running r
   left join turno.job_types t on t.name = r.type
   left join turno.job_definitions d on d.hash = t.definition_hash
   where r.worker_id = w.id) as running
from turno.workers w
where w.left_at is null
order by w.registered_at, w.id
limit 1000`;

/** Job types by name; a removed one stays until its last job has drained. */
export const LIST_JOB_TYPES = `
select t.name, t.queue, t.removed, o.description, o.spec ->> 'policy' as policy, d.definition, ${declaration("t.object_id")} as source
from turno.job_types t
join turno.job_definitions d on d.hash = t.definition_hash
join turno.objects o on o.id = t.object_id
order by t.name
limit 5000`;

/** The pause over a schedule or queue as the API has it; null: none. */
export const pauseOf = (kind: "Schedule" | "Queue", name: string): string => `(
  select jsonb_build_object('by', p.paused_by, 'reason', p.reason,
    'pausedAt', to_char(p.paused_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'until', to_char(p.until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
  from turno.overlays p
  where p.kind = '${kind}' and p.name = ${name})`;

/** Queues that are declared, hold jobs or are taken from, by name. */
export const LIST_QUEUES = `
with counts as (${LIVE_COUNTS}),
started as (
  select queue, count(*) as started from (${RUNNING}) as r group by queue
),
day as (
  select queue, sum(executions) as executions, sum(failures) as failures, sum(ran_ms) / nullif(sum(executions), 0) as mean_ms
  from (${minutesSince("now() - interval '24 hours'")}) as minutes
  group by queue
),
offered as (
  select q ->> 'name' as queue, sum((q ->> 'concurrency')::int) as slots
  from turno.workers w
  cross join jsonb_array_elements(w.queues) q
  where w.left_at is null and w.heartbeat_at > now() - ${SILENT_AFTER}
  group by 1
),
names as (
  select name from turno.queues
  union
  select queue from counts where scheduled + enqueued + processing > 0
  union
  select queue from offered
  union
  select queue from turno.job_types where not removed
)
select now() as now, n.name, q.concurrency, coalesce(q.suspended, false) as suspended, coalesce(c.scheduled, 0) as scheduled,
  coalesce(c.enqueued, 0) as enqueued, coalesce(c.processing, 0) as processing, coalesce(s.started, 0) as started,
  coalesce(o.slots, 0) as slots, coalesce(d.executions, 0) as executions, coalesce(d.failures, 0) as failures, d.mean_ms,
  ${declaration("q.object_id")} as source, ${pauseOf("Queue", "n.name")} as pause
from names n
left join turno.queues q on q.name = n.name
left join counts c on c.queue = n.name
left join started s on s.queue = n.name
left join day d on d.queue = n.name
left join offered o on o.queue = n.name
order by n.name
limit 1000`;

/** Schedules by name. $1 text after this name, null: from the first · $2 int limit. */
export const LIST_SCHEDULES = `
select now() as now, s.name, o.description, s.job_type, t.queue, s.spec, s.timing_hash, s.suspended, s.next_fire_at, s.last_fire_at,
  s.last_job_id, s.awaits_finish, ${declaration("s.object_id")} as source, ${pauseOf("Schedule", "s.name")} as pause
from turno.recurring_jobs s
join turno.objects o on o.id = s.object_id
left join turno.job_types t on t.name = s.job_type and not t.removed
where $1::text is null or s.name > $1
order by s.name
limit $2`;

/** The newest fires of schedules with the states of their jobs, newest first. $1 text[] schedules · $2 int of each. */
export const LIST_FIRES = `
with fires as (
  select f.*
  from unnest($1::text[]) as s (name)
  cross join lateral (
    select schedule, fire_at, outcome, job_id, late_ms
    from turno.schedule_fires
    where schedule = s.name
    order by fire_at desc
    limit $2
  ) as f
)
select f.schedule, f.fire_at, f.outcome, f.job_id, f.late_ms, ${SHOWN_STATE} as state
from fires f
left join turno.jobs j on j.id = f.job_id
order by f.schedule, f.fire_at desc`;

/** What a person should look at; each row one jsonb, shaped as the port's Concern with times as text. */
export const LIST_CONCERNS = `
with counts as (${LIVE_COUNTS}),
alive as (
  select id, name, queues, unloadable_bundles, registered_at, clock_skew_ms, handlers_stuck, leases_failing
  from turno.workers
  where left_at is null and heartbeat_at > now() - ${SILENT_AFTER}
),
taken as (
  select distinct q ->> 'name' as queue from alive a cross join jsonb_array_elements(a.queues) q
),
running as (
  select r.id, r.type, r.started_at + coalesce(r.timeout_ms, (d.definition ->> 'timeoutMs')::bigint) * interval '1 millisecond' as deadline, r.started_at
  from (${RUNNING} limit 10000) as r
  left join turno.job_types t on t.name = r.type
  left join turno.job_definitions d on d.hash = t.definition_hash
),
projects as (
  select source, introduced_in, spec -> 'runtime' as runtime, lag(spec -> 'runtime') over (order by introduced_in) as before
  from turno.objects
  where kind = 'Project'
),
settings as (
  select r.applied_at as changed_at
  from projects p
  join turno.revisions r on r.source = p.source and r.number = p.introduced_in
  where p.before <> p.runtime
  order by p.introduced_in desc
  limit 1
)
select jsonb_build_object('kind', 'no-worker', 'queue', c.queue, 'queued', c.enqueued) as concern
from counts c
left join turno.queues q on q.name = c.queue
where c.enqueued > 0 and not coalesce(q.suspended, false) and not exists (select from taken t where t.queue = c.queue)
union all
(select jsonb_build_object('kind', 'worker-silent', 'worker', name, 'since', heartbeat_at)
 from turno.workers
 where left_at is null and heartbeat_at between now() - interval '10 minutes' and now() - ${SILENT_AFTER}
 order by heartbeat_at desc
 limit 5)
union all
(select jsonb_build_object('kind', 'worker-ailing', 'worker', name, 'leasesFailing', leases_failing, 'handlersStuck', handlers_stuck,
   'clockSkewMs', case when abs(clock_skew_ms) >= ${SHOWN_SKEW_MS} then clock_skew_ms end)
 from alive
 where leases_failing or handlers_stuck > 0 or abs(clock_skew_ms) >= ${SHOWN_SKEW_MS}
 order by name
 limit 5)
union all
select jsonb_build_object('kind', 'restart-needed', 'workers', jsonb_agg(a.name order by a.name), 'since', s.changed_at)
from settings s
join alive a on a.registered_at < s.changed_at
group by s.changed_at
union all
(select jsonb_build_object('kind', 'near-timeout', 'jobId', id, 'type', type, 'deadline', deadline)
 from running
 where now() > started_at + (deadline - started_at) * 0.8
 order by deadline
 limit 5)
union all
(select jsonb_build_object('kind', 'held', 'type', type, 'hold', hold, 'count', count(*), 'since', min(run_at))
 from (select type, hold, run_at from turno.jobs_live where hold in ('breaker', 'no-handler') limit 1000) as held
 group by type, hold
 order by count(*) desc
 limit 5)
union all
(select jsonb_build_object('kind', 'unloadable', 'worker', name, 'bundles', cardinality(unloadable_bundles))
 from alive
 where cardinality(unloadable_bundles) > 0
 order by name
 limit 5)
union all
(select jsonb_build_object('kind', 'dead-letters', 'type', type, 'count', count(*), 'last', max(created_at))
 from (select type, created_at from turno.dead_letters where status = 'pending' order by id desc limit 1000) as letters
 group by type
 order by max(created_at) desc
 limit 5)
union all
(select jsonb_build_object('kind', 'missed', 'schedule', schedule, 'count', count(*), 'last', max(fire_at))
 from (
   select schedule, fire_at, outcome from turno.schedule_fires
   where decided_at > now() - interval '24 hours'
   order by decided_at desc
   limit 20000
 ) as decided
 where outcome = 'missed'
 group by schedule
 order by max(fire_at) desc
 limit 5)
union all
select jsonb_build_object('kind', 'queue-suspended', 'queue', q.name, 'queued', c.enqueued)
from turno.queues q
join counts c on c.queue = q.name
where q.suspended and c.enqueued > 0
union all
(select jsonb_build_object('kind', 'never-fires', 'schedule', name)
 from turno.recurring_jobs
 where next_fire_at is null and not suspended and not awaits_finish and spec #>> '{timing,kind}' <> 'at'
 order by name
 limit 5)`;

/** The revision in force. No row: nothing was applied yet. */
export const LOAD_REVISION = `
select number, commit_id, author, message, applied_at
from turno.revisions
order by applied_at desc, number desc
limit 1`;

/** The last look at the files. No row: nobody watches them, or something was applied since. */
export const LOAD_SYNC = `
select s.ok, s.checked_at, s.checked_at < now() - ${UNWATCHED_AFTER} as silent, s.last_ok_at,
  case when not s.ok then s.problems -> 0 end as problem, jsonb_array_length(s.problems) as problems
from turno.sync_status s
where s.checked_at >= coalesce((select max(applied_at) from turno.revisions), '-infinity')
order by s.checked_at desc
limit 1`;

/** The clock that every shown time is measured by. */
export const DATABASE_TIME = "select now() as now";
