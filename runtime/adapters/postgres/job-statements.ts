/**
 * Creating jobs and what operators do to them.
 */

/** Every column that a job keeps when it moves between the live and the final partition; first what is read apart from the others. */
export const KEPT_COLUMNS = `
  id, type, queue, has_history, priority, payload, payload_external, failures, execution, lost, lost_unstarted, returns, generation,
  max_attempts, timeout_ms, dispatch_id, sort_at, run_at, created_at, enqueued_at, enqueued_why, claimed_at, started_at,
  worker_id, lease_counter, recovered, cancel_requested_at, concurrency_key, schedule, fire_at, fire_late_ms, object_id, parent_id`;

/** The day after which a cancelled job `j` is dropped: its type's retention, 7 days for a type that is gone. */
export const CANCELLED_EXPIRY = `(now() + coalesce((
    select (d.definition #>> '{retention,cancelledMs}')::bigint
    from turno.job_types y join turno.job_definitions d on d.hash = y.definition_hash
    where y.name = j.type), 604800000) * interval '1 millisecond')::date + 1`;

/**
 * (new) → Scheduled or Enqueued, all or none.
 * $1 uuid[] ids · $2 text[] types · $3 text[] queues (null: the type's) · $4 text[] payloads (JSON) · $5 boolean[] payload is external
 * $6 smallint[] priorities · $7 timestamptz[] due at · $8 bigint[] due after ms · $9 int[] max attempts · $10 bigint[] time-outs in ms
 * $11 text channel to ring in with the commit (null: none) · $12 text what a ring says before the queue
 * Rows with a type that is not declared come back with id null, and then nothing was inserted.
 */
export const INSERT_JOBS = `
with input as (
  select *
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::smallint[], $7::timestamptz[], $8::bigint[], $9::int[], $10::bigint[])
    as i (id, type, queue, payload, external, priority, due_at, due_after_ms, max_attempts, timeout_ms)
),
resolved as (
  select i.*, t.name as declared, t.object_id, coalesce(i.queue, t.queue) as target_queue,
    coalesce(i.due_at, now() + i.due_after_ms * interval '1 millisecond', now()) as run_at
  from input i
  left join turno.job_types t on t.name = i.type and not t.removed
),
unknown as (
  select distinct type from resolved where declared is null
),
created as (
  insert into turno.jobs_live (
    id, type, queue, state, priority, payload, payload_external, max_attempts, timeout_ms, dispatch_id, sort_at, run_at,
    enqueued_at, enqueued_why, object_id
  )
  select id, type, target_queue, case when run_at > now() then 'Scheduled' else 'Enqueued' end, priority,
    case when external then null else payload::jsonb end, external, max_attempts, timeout_ms,
    case when run_at > now() then null else nextval('turno.dispatch_seq') end,
    run_at - priority * interval '60 seconds', run_at,
    case when run_at > now() then null else now() end, case when run_at > now() then null else 'created' end, object_id
  from resolved
  where not exists (select from unknown)
  returning id, state, queue
),
payloads as (
  insert into turno.job_payloads (job_id, payload)
  select id, payload::jsonb from resolved where external and not exists (select from unknown)
),
counted as (
  insert into turno.counter_deltas (queue, scheduled, enqueued)
  select queue, count(*) filter (where state = 'Scheduled'), count(*) filter (where state = 'Enqueued') from created group by queue
),
rung as (
  select pg_notify($11::text, $12::text || queue)
  from (select distinct queue from created where state = 'Enqueued') as queues
  where $11::text is not null
)
select id, state, queue, null as unknown_type, (select count(*) from rung) as rung from created
union all
select null, null, null, type, null from unknown`;

/**
 * (new) → Enqueued for a single job without a due time whose payload stays in its row: what most calls create, in two thirds of the time.
 * $1 uuid id · $2 text type · $3 text queue (null: the type's) · $4 text payload (JSON) · $5 smallint priority · $6 int max attempts
 * $7 bigint time-out in ms · $8 text channel to ring in with the commit (null: none) · $9 text what a ring says before the queue
 * No row: the type is not declared.
 */
export const INSERT_ONE_JOB = `
with created as (
  insert into turno.jobs_live (
    id, type, queue, state, priority, payload, max_attempts, timeout_ms, dispatch_id, sort_at, run_at, enqueued_at, enqueued_why, object_id
  )
  select $1::uuid, t.name, coalesce($3::text, t.queue), 'Enqueued', $5::smallint, $4::jsonb, $6::int, $7::bigint, nextval('turno.dispatch_seq'),
    now() - $5::smallint * interval '60 seconds', now(), now(), 'created', t.object_id
  from turno.job_types t
  where t.name = $2::text and not t.removed
  returning queue
),
counted as (
  insert into turno.counter_deltas (queue, enqueued) select queue, 1 from created
)
select queue, case when $8::text is not null then pg_notify($8::text, $9::text || queue) end as rung from created`;

/**
 * (new) → Scheduled or Enqueued for jobs with concurrency keys, and for those that come with a finish. What is due and has a key waits
 * for it (held key) until TAKE_FREE_KEYS and HAND_OVER_KEYS of the same transaction.
 * $1 … $10 as INSERT_JOBS · $11 text[] concurrency keys · $12 uuid[] parents
 * A job of a type that is not declared any more is held (no-handler) when it has a parent, whose work is done; otherwise it comes back with id
 * null, and then nothing was inserted.
 */
export const INSERT_SPECIAL_JOBS = `
with input as (
  select *
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::smallint[], $7::timestamptz[], $8::bigint[], $9::int[], $10::bigint[],
    $11::text[], $12::uuid[])
    as i (id, type, queue, payload, external, priority, due_at, due_after_ms, max_attempts, timeout_ms, concurrency_key, parent_id)
),
resolved as (
  select i.*, t.name as declared, t.object_id, coalesce(i.queue, t.queue, 'default') as target_queue, due.run_at,
    case
      when t.name is null then 'no-handler'
      when due.run_at <= now() and i.concurrency_key is not null then 'key'
    end as hold
  from input i
  left join turno.job_types t on t.name = i.type and not t.removed
  cross join lateral (select coalesce(i.due_at, now() + i.due_after_ms * interval '1 millisecond', now()) as run_at) as due
),
unknown as (
  select distinct type from resolved where declared is null and parent_id is null
),
created as (
  insert into turno.jobs_live (
    id, type, queue, state, hold, priority, payload, payload_external, max_attempts, timeout_ms, dispatch_id, sort_at, run_at,
    enqueued_at, enqueued_why, object_id, concurrency_key, parent_id
  )
  select id, type, target_queue, case when run_at > now() or hold is not null then 'Scheduled' else 'Enqueued' end, hold, priority,
    case when external then null else payload::jsonb end, external, max_attempts, timeout_ms,
    case when run_at > now() or hold is not null then null else nextval('turno.dispatch_seq') end,
    run_at - priority * interval '60 seconds', run_at,
    case when run_at > now() or hold is not null then null else now() end,
    case when run_at > now() or hold is not null then null else 'created' end, object_id, concurrency_key, parent_id
  from resolved
  where not exists (select from unknown)
  returning id, state, queue
),
payloads as (
  insert into turno.job_payloads (job_id, payload)
  select id, payload::jsonb from resolved where external and not exists (select from unknown)
),
counted as (
  insert into turno.counter_deltas (queue, scheduled, enqueued)
  select queue, count(*) filter (where state = 'Scheduled'), count(*) filter (where state = 'Enqueued') from created group by queue
)
select id, state, queue, null as unknown_type from created
union all
select null, null, null, type from unknown`;

/** The definitions in force of job types. $1 text[] names. */
export const LOAD_JOB_TYPES = `
select t.name, d.definition
from turno.job_types t
join turno.job_definitions d on d.hash = t.definition_hash
where t.name = any($1::text[]) and not t.removed`;

/**
 * Scheduled, Enqueued → Cancelled; Processing → a request.
 * $1 uuid job. One row: the state before, or that of the finished job; no row: there is no such job. \`key\`: what the cancelled job may have had.
 */
export const CANCEL_JOB = `
with target as (
  select id, state from turno.jobs_live where id = $1::uuid for update
),
requested as (
  update turno.jobs_live j
  set cancel_requested_at = coalesce(j.cancel_requested_at, now())
  from target t
  where j.id = t.id and t.state = 'Processing'
),
gone as (
  delete from turno.jobs_live j
  using target t
  where j.id = t.id and t.state in ('Scheduled', 'Enqueued')
  -- Not now(): it may have waited for what the timeline is to show before it.
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
    (g.ended_at, g.state, 'Cancelled', 'cancelled')) as c (at, from_state, to_state, reason)
  where c.to_state <> 'Enqueued' or (g.state = 'Enqueued' and g.enqueued_why in ('due', 'hold released'))
),
counted as (
  insert into turno.counter_deltas (queue, scheduled, enqueued, cancelled)
  select queue, -(state = 'Scheduled')::int, -(state = 'Enqueued')::int, 1 from gone
)
select state, exists (select from gone) as cancelled, (select concurrency_key from gone where state = 'Enqueued') as key from target
union all
select state, false, null from turno.jobs_final where id = $1::uuid and not exists (select from target)`;

/**
 * Before REQUEUE_JOB and DELETE_JOB in the same transaction: what moves the job's history ends first, so that they see where it is.
 * $1 uuid job.
 */
export const LOCK_FINISHED = `
select from turno.jobs_final where id = $1::uuid for update`;

/**
 * Failed, Cancelled, Succeeded → Enqueued with a new generation and fresh budgets; attempts and timeline come along.
 * $1 uuid job. The row tells the state before; requeued is false when the job is not finished; no row: no such job. A job with a
 * concurrency key stands held until it has it, within the same transaction, or HOLD_REQUEUED notes that it waits.
 */
export const REQUEUE_JOB = `
with gone as (
  delete from turno.jobs_final where id = $1::uuid returning *
),
back as (
  insert into turno.jobs_live (
    id, type, queue, state, hold, priority, payload, payload_external, execution, generation, max_attempts, timeout_ms, dispatch_id,
    sort_at, run_at, created_at, enqueued_at, enqueued_why, concurrency_key, schedule, fire_at, fire_late_ms, object_id, parent_id, has_history
  )
  select id, type, queue, case when concurrency_key is null then 'Enqueued' else 'Scheduled' end, case when concurrency_key is not null then 'key' end,
    priority, payload, payload_external, execution, generation + 1, max_attempts, timeout_ms,
    case when concurrency_key is null then nextval('turno.dispatch_seq') end, now() - priority * interval '60 seconds', now(), created_at, greatest(now(), finished_at + interval '1 millisecond'), 'requeued', concurrency_key,
    schedule, fire_at, fire_late_ms, object_id, parent_id, true
  from gone
  returning id, queue, state, concurrency_key
),
old_attempts as (
  delete from turno.job_attempts_final a using gone g where a.job_id = g.id
),
attempts as (
  insert into turno.job_attempts_live (job_id, execution, generation, dispatch_id, worker_id, outcome, started_at, finished_at, error, stack, bundle_hash, revision)
  select job_id, execution, generation, dispatch_id, worker_id, outcome, started_at, finished_at, error, stack, bundle_hash, revision
  from turno.job_executions
  where job_id = $1::uuid and final and exists (select from gone)
),
old_changes as (
  delete from turno.job_state_changes_final c using gone g where c.job_id = g.id
),
changes as (
  insert into turno.job_state_changes_live (job_id, at, from_state, to_state, reason)
  select job_id, at, from_state, to_state, reason from turno.job_timeline
  where job_id = $1::uuid and final and exists (select from gone)
  union all
  select id, greatest(now(), finished_at + interval '1 millisecond'), state, 'Enqueued', 'requeued' from gone
),
letters as (
  update turno.dead_letters l set status = 'requeued' from gone g where l.job_id = g.id and l.status = 'pending'
),
counted as (
  insert into turno.counter_deltas (queue, enqueued, scheduled) select queue, (state = 'Enqueued')::int, (state = 'Scheduled')::int from back
)
select g.state, b.queue, true as requeued, b.concurrency_key as key from gone g join back b on b.id = g.id
union all
select state, queue, false, null from turno.jobs_live where id = $1::uuid and not exists (select from gone)`;

/** Enqueued → Scheduled for a requeued job whose concurrency key another has; nobody has seen it Enqueued. $1 uuid job. */
export const HOLD_REQUEUED = `
with held as (
  update turno.jobs_live j
  set enqueued_at = null, enqueued_why = null, run_at = before.enqueued_at + interval '1 millisecond'
  from (select id, enqueued_at from turno.jobs_live where id = $1::uuid) as before
  where j.id = before.id
  returning j.id, before.enqueued_at
)
insert into turno.job_state_changes_live (job_id, at, from_state, to_state, reason)
select id, enqueued_at + interval '1 millisecond', 'Enqueued', 'Scheduled', 'held' from held`;

/** Removes a finished job and all that belongs to it. $1 uuid job. As REQUEUE_JOB's result. */
export const DELETE_JOB = `
with gone as (
  delete from turno.jobs_final where id = $1::uuid returning id, state
),
attempts as (delete from turno.job_attempts a using gone g where a.job_id = g.id),
changes as (delete from turno.job_state_changes c using gone g where c.job_id = g.id),
payloads as (delete from turno.job_payloads p using gone g where p.job_id = g.id),
letters as (delete from turno.dead_letters l using gone g where l.job_id = g.id)
select state, true as deleted from gone
union all
select state, false from turno.jobs_live where id = $1::uuid and not exists (select from gone)`;
