import { KEPT_COLUMNS } from "./job-statements.ts";

/**
 * Renews explicit executions, skipping rows that are locked at this moment.
 * $1 worker · $2 uuid[] jobs · $3 bigint[] tokens · $4 bigint[] running ms (null: not started)
 * Rows: renewed (with the cancel request) or skipped; one that is missing is lost. By token: a worker may hold two executions of
 * one job, of which the older is lost.
 */
export const RENEW_LEASES = `
with input as (
  select * from unnest($2::uuid[], $3::bigint[], $4::bigint[]) as i (job, token, running_ms)
),
free as (
  select j.id, i.running_ms
  from turno.jobs_live j
  join input i on j.id = i.job and j.dispatch_id = i.token
  where j.worker_id = $1::uuid and j.state = 'Processing'
  for update of j skip locked
),
renewed as (
  update turno.jobs_live j
  set lease_counter = j.lease_counter + 1,
    started_at = coalesce(j.started_at, now() - f.running_ms * interval '1 millisecond')
  from free f
  where j.id = f.id
  returning j.id, j.dispatch_id, j.cancel_requested_at is not null as cancel_requested
)
select dispatch_id as token, true as renewed, cancel_requested from renewed
union all
select j.dispatch_id, false, false
from turno.jobs_live j
join input i on j.id = i.job and j.dispatch_id = i.token
where j.worker_id = $1::uuid and j.state = 'Processing' and not exists (select from renewed r where r.id = j.id)`;

/** Every running job, with the counter its owner's renewals raise. */
export const OBSERVE_LEASES = `
select id, dispatch_id, lease_counter from turno.jobs_live where state = 'Processing'`;

/**
 * Processing → Enqueued with a new token, Failed when the budget of losses is spent, Cancelled when asked for. Rows that are
 * locked at this moment are passed over: somebody works on them, so they are not lost.
 * $1 uuid[] jobs · $2 bigint[] tokens · $3 int[] lease counters: all three are looked at again on the locked row.
 * A job that goes on keeps its concurrency key; \`key\`: what one that has ended had.
 */
export const RECOVER_JOBS = `
with input as (
  select * from unnest($1::uuid[], $2::bigint[], $3::int[]) as i (job, token, counter)
),
owned as (
  select j.id, j.worker_id as owner, j.enqueued_at as enqueued, j.enqueued_why as why, j.claimed_at as claimed, j.started_at as started,
    j.dispatch_id as token,
    -- What it was claimed with is known as long as no later revision has changed it.
    case when v.applied_at <= j.claimed_at then y.revision end as revision,
    case when v.applied_at <= j.claimed_at then d.definition ->> 'bundleHash' end as bundle,
    (d.definition #>> '{retention,failedMs}')::bigint as retain_failed, (d.definition #>> '{retention,cancelledMs}')::bigint as retain_cancelled,
    case
      when j.cancel_requested_at is not null then 'Cancelled'
      when j.started_at is not null and j.lost + 1 >= coalesce((d.definition #>> '{policy,maxLost}')::int, 3) then 'Failed'
      else 'Enqueued'
    end as next
  from turno.jobs_live j
  join input i on j.id = i.job and j.dispatch_id = i.token and j.lease_counter = i.counter
  left join turno.job_types y on y.name = j.type
  left join turno.job_definitions d on d.hash = y.definition_hash
  left join turno.revisions v on v.number = y.revision
  where j.state = 'Processing'
  for update of j skip locked
),
back as (
  update turno.jobs_live j
  set state = 'Enqueued', dispatch_id = nextval('turno.dispatch_seq'), worker_id = null, claimed_at = null, started_at = null,
    lease_counter = 0, progress = 0, progress_message = null, recovered = true, has_history = true,
    lost = j.lost + (o.started is not null)::int, lost_unstarted = j.lost_unstarted + (o.started is null)::int,
    enqueued_at = now(), enqueued_why = 'worker lost'
  from owned o
  where j.id = o.id and o.next = 'Enqueued'
  returning j.id, j.queue, j.execution, j.generation, o.owner, o.enqueued, o.why, o.claimed, o.started, o.token, o.bundle, o.revision, o.next
),
ended as (
  delete from turno.jobs_live j
  using owned o
  where j.id = o.id and o.next <> 'Enqueued'
  returning j.*, o.owner, o.enqueued, o.why, o.claimed, o.started, o.token, o.bundle, o.revision, o.next,
    (now() + coalesce(case when o.next = 'Failed' then o.retain_failed else o.retain_cancelled end, 2592000000) * interval '1 millisecond')::date + 1 as expires
),
finished as (
  insert into turno.jobs_final (final, expires_on, state, error, progress, progress_message, finished_at, ${KEPT_COLUMNS})
  select true, expires, next, case when next = 'Failed' then 'worker lost' else error end, progress, progress_message, now(), ${KEPT_COLUMNS.replace(
    " lost, lost_unstarted,",
    " lost + (started is not null)::int, lost_unstarted + (started is null)::int,",
  )}
  from ended
),
letters as (
  insert into turno.dead_letters (job_id, type, queue, payload, error, attempts, reason, expires_on)
  select id, type, queue, payload, 'worker lost', failures, 'worker lost', expires from ended where next = 'Failed'
),
attempts_live as (
  insert into turno.job_attempts_live (job_id, execution, generation, dispatch_id, worker_id, outcome, started_at, error, bundle_hash, revision)
  select id, execution, generation, token, owner, 'lost', started, 'worker lost', bundle, revision from back
),
attempts_final as (
  insert into turno.job_attempts_final (job_id, final, expires_on, execution, generation, dispatch_id, worker_id, outcome, started_at, error, bundle_hash, revision)
  select id, true, expires, execution, generation, token, owner, 'lost', started, 'worker lost', bundle, revision from ended
),
changes_live as (
  insert into turno.job_state_changes_live (job_id, at, from_state, to_state, reason)
  select b.id, c.at, c.from_state, c.to_state, c.reason
  from back b
  cross join lateral (values
    (b.enqueued, 'Scheduled', 'Enqueued', b.why),
    (b.claimed, 'Enqueued', 'Processing', 'claimed'),
    (now(), 'Processing', 'Enqueued', 'worker lost')) as c (at, from_state, to_state, reason)
  where c.from_state <> 'Scheduled' or b.why in ('due', 'hold released')
),
changes_final as (
  insert into turno.job_state_changes_final (job_id, final, expires_on, at, from_state, to_state, reason)
  select e.id, true, e.expires, c.at, c.from_state, c.to_state, c.reason
  from ended e
  cross join lateral (values
    (e.enqueued, 'Scheduled', 'Enqueued', e.why),
    (e.claimed, 'Enqueued', 'Processing', 'claimed'),
    (now(), 'Processing', e.next, case when e.next = 'Failed' then 'worker lost' else 'cancelled' end)) as c (at, from_state, to_state, reason)
  where c.from_state <> 'Scheduled' or e.why in ('due', 'hold released')
),
counted as (
  insert into turno.counter_deltas (queue, processing, enqueued, failed, cancelled)
  select queue, -count(*), count(*) filter (where next = 'Enqueued'), count(*) filter (where next = 'Failed'), count(*) filter (where next = 'Cancelled')
  from (select queue, next from back union all select queue, next from ended) as moved
  group by queue
)
select id, owner, token, next, queue, null as key from back
union all
select id, owner, token, next, queue, concurrency_key from ended`;
