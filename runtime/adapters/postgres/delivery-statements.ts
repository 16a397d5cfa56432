import { AFTER_ENQUEUEING, CLAIMED_COLUMNS } from "./execution-statements.ts";

/**
 * Enqueued → Processing for the jobs that a broker's messages name, where their tokens still stand and their queues are neither limited nor
 * suspended. $1 worker · $2 uuid[] jobs · $3 bigint[] tokens, each once. A prepared statement: by id, so nested loops are right at every size.
 * A row a claimed job, and one without a type where the queue keeps it from being claimed now; no row: the message is stale or a duplicate.
 * \`definitions\`, on one row: hash and revision by job type.
 */
export const CLAIM_DELIVERIES = `
with gate as materialized (
  select array_agg(q.name) as closed from turno.queues q where q.suspended or q.concurrency is not null
),
claimed as (
  update turno.jobs_live j
  set state = 'Processing', worker_id = $1::uuid, execution = j.execution + 1, claimed_at = ${AFTER_ENQUEUEING}, started_at = case when j.recovered then now() end,
    lease_counter = 0, progress = 0, progress_message = null
  from unnest($2::uuid[], $3::bigint[]) as i (job, token)
  cross join gate g
  where j.id = i.job and j.state = 'Enqueued' and j.dispatch_id = i.token and (g.closed is null or j.queue <> all (g.closed))
  returning ${CLAIMED_COLUMNS}
),
counted as (
  insert into turno.counter_deltas (queue, enqueued, processing) select queue, -count(*), count(*) from claimed group by queue
)
select c.id, c.dispatch_id, c.type, c.queue, c.payload, c.execution, c.more,
  case when c.id = (select id from claimed limit 1) then (
    select json_object_agg(t.name, json_build_array(t.definition_hash, t.revision))
    from turno.job_types t
    where t.name in (select type from claimed)) end as definitions
from claimed c
union all
select j.id, i.token, null, j.queue, null, null, null, null
from gate g
cross join unnest($2::uuid[], $3::bigint[]) as i (job, token)
join turno.jobs_live j on j.id = i.job
where g.closed is not null and j.state = 'Enqueued' and j.dispatch_id = i.token and j.queue = any (g.closed)`;

/**
 * Enqueued → Scheduled by the claim's own predicate. $1 uuid[] jobs · $2 bigint[] tokens, each once · $3 bigint[] delays in ms.
 * A job that is not among the rows was nobody's to put off.
 */
export const DEFER_DELIVERIES = `
with deferred as (
  update turno.jobs_live j
  set state = 'Scheduled', dispatch_id = null, run_at = now() + i.delay_ms * interval '1 millisecond'
  from unnest($1::uuid[], $2::bigint[], $3::bigint[]) as i (job, token, delay_ms)
  where j.id = i.job and j.state = 'Enqueued' and j.dispatch_id = i.token
  returning j.id, j.queue, j.concurrency_key, i.token
),
counted as (
  insert into turno.counter_deltas (queue, enqueued, scheduled) select queue, -count(*), count(*) from deferred group by queue
)
select id, token, concurrency_key as key from deferred`;
