import { CANCELLED_EXPIRY, KEPT_COLUMNS } from "./job-statements.ts";

/**
 * The hot path. Claims and successful finishes are prepared statements with one plan for ever, so they are written such
 * that nested loops over indexes are right at every size: by place, by id. Left to itself, the generic plan of a claim
 * took half of the throughput. Behind a pooler in transaction mode, and for all others here, nothing is prepared.
 */

/** What most jobs have nothing in is folded into one column: every column of every row is written, sent and read. */
export const CLAIMED_COLUMNS = `
  j.id, j.dispatch_id, j.type, j.queue, j.sort_at, j.execution,
  case when j.payload_external then (select p.payload from turno.job_payloads p where p.job_id = j.id) else j.payload end as payload,
  case
    when j.failures > 0 or j.lost > 0 or j.lost_unstarted > 0 or j.returns > 0 or j.recovered
      or j.max_attempts is not null or j.timeout_ms is not null or j.schedule is not null or j.concurrency_key is not null
    then json_build_object(
      'failures', j.failures, 'lost', j.lost, 'lostUnstarted', j.lost_unstarted, 'returns', j.returns, 'recovered', j.recovered,
      'maxAttempts', j.max_attempts, 'timeoutMs', j.timeout_ms, 'concurrencyKey', j.concurrency_key,
      'schedule', j.schedule, 'fireAt', j.fire_at, 'fireLateMs', j.fire_late_ms)
  end as more`;

/**
 * One row a claimed job, in queue order; a single row without an id when there is none. `closed`: the queue is limited or
 * suspended. `once`, on the last row only: what is the same for all of them, and their place in the queue.
 */
const CLAIM_ANSWER = `
select gate.closed, c.id, c.dispatch_id, c.type, c.payload, c.execution, c.more,
  case when c.id = (select id from claimed order by sort_at desc, id desc limit 1) then json_build_object(
    'queue', c.queue,
    'positionUs', (extract(epoch from c.sort_at) * 1000000)::bigint::text,
    'definitions', (
      select json_object_agg(t.name, json_build_array(t.definition_hash, t.revision))
      from turno.job_types t
      where t.name in (select type from claimed)))
  end as once
from gate
left join claimed c on true
order by c.sort_at, c.id`;

/** A claim sees jobs that came into their queue after it began, and so after its \`now()\`; a timeline goes forward. */
export const AFTER_ENQUEUEING = "greatest(now(), j.enqueued_at)";

/**
 * $1 queue · $2 cursor's sort position in µs of the epoch · $3 cursor's id · $4 limit · $5 worker · $6 text[] types to leave alone
 * A row that changed after the snapshot keeps its lock and is not found by its new place: the next look takes it.
 */
const claim = (options: { readonly from: string; readonly guard: string; readonly startedAt: string }): string => `
with gate as materialized (
  select exists (select from turno.queues q where q.name = $1 and (q.suspended or q.concurrency is not null)) as closed
),
picked as (
  select ctid
  from turno.jobs_live
  where state = 'Enqueued' and queue = $1 and ${options.from} and type <> all ($6::text[])${options.guard}
  order by sort_at, id
  limit $4::bigint
  for update skip locked
),
claimed as (
  update turno.jobs_live j
  set state = 'Processing', worker_id = $5::uuid, execution = j.execution + 1, claimed_at = ${AFTER_ENQUEUEING}, started_at = ${options.startedAt},
    lease_counter = 0, progress = 0, progress_message = null
  where j.ctid = any (array(select ctid from picked))
  returning ${CLAIMED_COLUMNS}
),
counted as (
  insert into turno.counter_deltas (queue, enqueued, processing)
  select $1, -count(*), count(*) from claimed having count(*) > 0
)${CLAIM_ANSWER}`;

const AFTER_CURSOR =
  "not recovered and (sort_at, id) > (timestamptz 'epoch' + $2::bigint * interval '1 microsecond', $3::uuid)";
/** $2 and $3 are not looked at. */
const RECOVERED = "recovered and $2::bigint is not null and $3::uuid is not null";
const OPEN = `
    and not (select closed from gate)`;

/** Enqueued → Processing in queue order, for queues that are neither limited nor suspended. */
export const CLAIM_JOBS = claim({ from: AFTER_CURSOR, guard: OPEN, startedAt: "null" });

/** The same for a limited queue, after LOCK_QUEUE and COUNT_TAKEN in the same transaction. */
export const CLAIM_LIMITED_JOBS = claim({ from: AFTER_CURSOR, guard: "", startedAt: "null" });

/** Enqueued → Processing for a job that lost its worker, with its start written. */
export const CLAIM_RECOVERED_JOB = claim({ from: RECOVERED, guard: OPEN, startedAt: "now()" });

/** The same for a limited queue, after LOCK_QUEUE and COUNT_TAKEN in the same transaction. */
export const CLAIM_LIMITED_RECOVERED_JOB = claim({ from: RECOVERED, guard: "", startedAt: "now()" });

/** Serializes the claims of a queue with a limit. $1 queue. Empty: no such queue is declared. */
export const LOCK_QUEUE = `
select concurrency, suspended from turno.queues where name = $1 for update`;

/**
 * In a statement of its own, so that it sees what claims before it committed. $1 queue.
 * `waiting`: jobs that lost their worker; room is kept for them, since the others would take all of it again and again.
 */
export const COUNT_TAKEN = `
select
  (select count(*)::int from turno.jobs_live where state = 'Processing' and queue = $1) as processing,
  (select count(*)::int from turno.jobs_live where state = 'Enqueued' and recovered and queue = $1) as waiting`;

/** What a worker owns by the database's word. $1 worker. */
export const FIND_OWNED = `
select id, dispatch_id from turno.jobs_live where state = 'Processing' and worker_id = $1::uuid`;

/** $1 text[] hashes. */
export const LOAD_DEFINITIONS = `
select hash, definition from turno.job_definitions where hash = any ($1::text[])`;

/** $1 hash. */
export const LOAD_BUNDLE = `
select code from turno.handler_bundles where hash = $1`;

/**
 * Processing → Succeeded, for many executions of one worker: out of the live partition, into the final one, in a row that
 * holds the attempt and the last steps of the timeline too. A success wins over a cancel request. A live job with a worker is in Processing (the table checks it); its state is not asked for, so that rows are found by
 * their ids and never through all that is in Processing.
 * $1 worker · $2 uuid[] jobs · $3 bigint[] tokens · $4 text[] results (JSON) · $5 text[] result errors · $6 bigint[] ran ms
 * $7 int[] numbers of their kinds, from 1 · $8 bigint[] retain ms · $9 text[] bundle hashes · $10 bigint[] revisions of the kinds
 * Shorter arrays are filled with nulls. One row: how many landed, which when not all did (a missing one was fenced, or has
 * landed before), and the day that the earlier history of some is to follow them to.
 */
export const FINISH_SUCCEEDED = `
with kinds as materialized (
  select k.bundle, k.rev, k.number, (now() + k.retain_ms * interval '1 millisecond')::date + 1 as expires
  from unnest($8::bigint[], $9::text[], $10::bigint[]) with ordinality as k (retain_ms, bundle, rev, number)
),
ended as (
  delete from turno.jobs_live j
  using unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::int[])
    as i (job, token, new_result, new_result_error, ran_ms, kind)
  join kinds k on k.number = i.kind
  where j.id = i.job and j.dispatch_id = i.token and j.worker_id = $1::uuid
  returning k.expires, i.ran_ms, ${KEPT_COLUMNS}, j.progress_message, i.new_result, i.new_result_error, k.bundle, k.rev
),
finished as (
  insert into turno.jobs_final (final, expires_on, state, result, result_error, progress, progress_message, finished_at, succeeded_bundle, succeeded_revision, ${KEPT_COLUMNS})
  select true, expires, 'Succeeded', new_result::jsonb, new_result_error, 100, progress_message, now(), bundle, rev, ${KEPT_COLUMNS.replace(
    " started_at,",
    " coalesce(started_at, now() - ran_ms * interval '1 millisecond'),",
  )}
  from ended
),
counted as (
  insert into turno.counter_deltas (queue, processing, succeeded, executions, ran_ms)
  select queue, -count(*), count(*), count(*), coalesce(sum(ran_ms), 0) from ended group by queue
)
select count(*)::int as landed, case when count(*) < cardinality($2::uuid[]) then json_agg(id) end as ids,
  json_agg(json_build_object('id', id, 'history_to', expires)) filter (where has_history) as history
from ended`;

/**
 * Processing → Scheduled, Failed or Cancelled. A cancel request turns everything but a success into Cancelled. What is due again at once
 * and has a concurrency key waits for it, first in line or not: it is handed on in the same transaction.
 * $1 worker · $2 uuid[] jobs · $3 bigint[] tokens · $4 text[] next states · $5 text[] attempt outcomes · $6 text[] reasons
 * $7 text[] charges · $8 bigint[] delay ms · $9 text[] holds · $10 text[] errors · $11 text[] stacks · $12 bigint[] ran ms
 * $13 bigint[] retain failed ms · $14 bigint[] retain cancelled ms · $15 text[] bundle hashes · $16 bigint[] revisions
 * Returns the jobs that landed with the state they went to, and the day as FINISH_SUCCEEDED.
 */
export const FINISH_OTHERWISE = `
with input as (
  select *
  from unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[], $10::text[], $11::text[],
    $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::bigint[])
    as i (job, token, wanted, outcome, why, charge, delay_ms, new_hold, new_error, stack, ran_ms, retain_failed, retain_cancelled, bundle, rev)
),
owned as (
  select j.id, j.cancel_requested_at is not null as cancelled
  from turno.jobs_live j
  join input i on j.id = i.job and j.dispatch_id = i.token
  where j.worker_id = $1::uuid and j.state = 'Processing'
  for update of j
),
decided as (
  select i.*, case when o.cancelled then 'Cancelled' else i.wanted end as next, case when o.cancelled then 'cancelled' else i.why end as reason
  from owned o
  join input i on i.job = o.id
),
ended_live as (
  update turno.jobs_live j
  set state = 'Scheduled', hold = coalesce(d.new_hold, case when d.delay_ms <= 0 and j.concurrency_key is not null then 'key' end), dispatch_id = null, released_token = d.token, worker_id = null, enqueued_at = null, enqueued_why = null, claimed_at = null, started_at = null,
    progress = 0, progress_message = null, error = coalesce(d.new_error, j.error), lease_counter = 0,
    run_at = case when d.delay_ms > 0 then now() + d.delay_ms * interval '1 millisecond' else j.run_at end,
    sort_at = case when d.delay_ms > 0 then now() + d.delay_ms * interval '1 millisecond' - j.priority * interval '60 seconds' else j.sort_at end,
    failures = j.failures + (d.charge is not distinct from 'failure')::int,
    lost = j.lost + (d.charge is not distinct from 'lost')::int,
    returns = j.returns + (d.charge is not distinct from 'return')::int,
    recovered = d.charge is not distinct from 'lost', has_history = true
  from decided d
  where j.id = d.job and d.next = 'Scheduled'
  returning j.id, j.queue, j.execution, j.generation, j.enqueued_at, j.enqueued_why, d.token, d.outcome, d.next, d.reason, d.new_error, d.stack, d.ran_ms, d.bundle, d.rev
),
ended_final as (
  delete from turno.jobs_live j
  using decided d
  where j.id = d.job and d.next <> 'Scheduled'
  returning j.*, d.*, (now() + case when d.next = 'Failed' then d.retain_failed else d.retain_cancelled end * interval '1 millisecond')::date + 1 as expires
),
finished as (
  insert into turno.jobs_final (final, expires_on, state, error, progress, progress_message, finished_at, ${KEPT_COLUMNS})
  select true, expires, next, coalesce(new_error, error), progress, progress_message, now(), ${KEPT_COLUMNS.replace(
    "failures,",
    "failures + (charge is not distinct from 'failure')::int,",
  ).replace(" lost,", " lost + (charge is not distinct from 'lost')::int,")}
  from ended_final
),
letters as (
  insert into turno.dead_letters (job_id, type, queue, payload, error, stack, attempts, reason, expires_on)
  select id, type, queue, payload, coalesce(new_error, error), stack, failures + (charge is not distinct from 'failure')::int, reason, expires
  from ended_final
  where next = 'Failed'
),
attempts_live as (
  insert into turno.job_attempts_live (job_id, execution, generation, dispatch_id, worker_id, outcome, started_at, error, stack, bundle_hash, revision)
  select id, execution, generation, token, $1::uuid, outcome, now() - ran_ms * interval '1 millisecond', new_error, stack, bundle, rev
  from ended_live
  where ran_ms is not null
),
attempts_final as (
  insert into turno.job_attempts_final (job_id, final, expires_on, execution, generation, dispatch_id, worker_id, outcome, started_at, error, stack, bundle_hash, revision)
  select id, true, expires, execution, generation, token, $1::uuid, outcome, now() - ran_ms * interval '1 millisecond', new_error, stack, bundle, rev
  from ended_final
  where ran_ms is not null
),
changes_live as (
  insert into turno.job_state_changes_live (job_id, at, from_state, to_state, reason)
  select e.id, c.at, c.from_state, c.to_state, c.reason
  from ended_live e
  join turno.jobs_live before on before.id = e.id
  cross join lateral (values
    (before.enqueued_at, 'Scheduled', 'Enqueued', before.enqueued_why),
    (before.claimed_at, 'Enqueued', 'Processing', 'claimed'),
    (now(), 'Processing', e.next, e.reason)) as c (at, from_state, to_state, reason)
  where c.to_state <> 'Enqueued' or before.enqueued_why in ('due', 'hold released')
),
changes_final as (
  insert into turno.job_state_changes_final (job_id, final, expires_on, at, from_state, to_state, reason)
  select e.id, true, e.expires, c.at, c.from_state, c.to_state, c.reason
  from ended_final e
  cross join lateral (values
    (e.enqueued_at, 'Scheduled', 'Enqueued', e.enqueued_why),
    (e.claimed_at, 'Enqueued', 'Processing', 'claimed'),
    (now(), 'Processing', e.next, e.reason)) as c (at, from_state, to_state, reason)
  where c.to_state <> 'Enqueued' or e.enqueued_why in ('due', 'hold released')
),
counted as (
  insert into turno.counter_deltas (queue, processing, scheduled, failed, cancelled, executions, failures, ran_ms)
  select queue, -count(*), count(*) filter (where next = 'Scheduled'), count(*) filter (where next = 'Failed'), count(*) filter (where next = 'Cancelled'),
    count(ran_ms), count(*) filter (where outcome in ('failed', 'timed-out')), coalesce(sum(ran_ms), 0)
  from (select queue, next, ran_ms, outcome from ended_live union all select queue, next, ran_ms, outcome from ended_final) as ended
  group by queue
)
select id, next, case when has_history then expires end as history_to from ended_final
union all
select id, next, null from ended_live`;

/**
 * The executions whose end was written already. $1 worker · $2 uuid[] jobs · $3 bigint[] tokens · $4 text[] outcomes · $5 boolean[] the handler ran
 * An attempt tells it. Where the handler never ran there is none: the job was put off under its token, or lies Cancelled
 * with it and nobody says that its worker was lost.
 */
export const FIND_LANDED = `
select i.job as job_id, exists (
    select from turno.jobs_final f where f.id = i.job and f.dispatch_id = i.token and f.state = 'Cancelled') as cancelled
from unnest($2::uuid[], $3::bigint[], $4::text[], $5::boolean[]) as i (job, token, outcome, ran)
where case when i.ran then exists (
    select from turno.job_executions a
    where a.job_id = i.job and a.dispatch_id = i.token and a.worker_id = $1::uuid and a.outcome = i.outcome
      -- Recovery records a loss under the same token and worker.
      and not (a.outcome = 'lost' and a.error = 'worker lost'))
  else exists (select from turno.jobs_live j where j.id = i.job and j.released_token = i.token)
    or (exists (
        select from turno.jobs_final f
        where f.id = i.job and f.dispatch_id = i.token and f.worker_id = $1::uuid and f.state = 'Cancelled')
      and not exists (select from turno.job_attempts a where a.job_id = i.job and a.dispatch_id = i.token))
  end`;

/**
 * Attempts and history of earlier executions follow their finished job into the final partitions. Its row is locked, so that it is
 * not requeued or deleted at the same time: who does that looks for history where it was before.
 */
const moveHistory = (options: { readonly done: string; readonly result: string }): string => `
with ${options.done},
old_attempts as (
  delete from turno.job_attempts_live a using done d where a.job_id = d.id returning a.*, d.expires_on as expires
),
attempts as (
  insert into turno.job_attempts_final (job_id, final, expires_on, execution, generation, dispatch_id, worker_id, outcome, started_at, finished_at, error, stack, bundle_hash, revision)
  select job_id, true, expires, execution, generation, dispatch_id, worker_id, outcome, started_at, finished_at, error, stack, bundle_hash, revision from old_attempts
),
old_changes as (
  delete from turno.job_state_changes_live c using done d where c.job_id = d.id returning c.*, d.expires_on as expires
),
changes as (
  insert into turno.job_state_changes_final (job_id, final, expires_on, at, from_state, to_state, reason)
  select job_id, true, expires, at, from_state, to_state, reason from old_changes
)
${options.result}`;

/** $1 uuid[] jobs · $2 date[] the days they expire on. */
export const MOVE_HISTORY = moveHistory({
  done: `done as (
  select id, expires_on
  from turno.jobs_final
  where id = any ($1::uuid[]) and expires_on = any ($2::date[])
  for update skip locked
)`,
  result: "select id from done",
});

/** Jobs whose history one sweep moves, at least, when there are as many. */
export const HISTORY_PORTION = 1_000;

/**
 * The net for a crash right after a finish, and for ends that do not care: the history of every job that has left the live partition,
 * in portions of \`taken\` jobs. History of a job that is nowhere goes.
 */
export const MOVE_LEFT_BEHIND = moveHistory({
  done: `left_behind as materialized (
  (select distinct a.job_id
   from turno.job_attempts_live a
   where not exists (select from turno.jobs_live j where j.id = a.job_id)
   limit ${HISTORY_PORTION})
  union
  (select distinct c.job_id
   from turno.job_state_changes_live c
   where not exists (select from turno.jobs_live j where j.id = c.job_id)
   limit ${HISTORY_PORTION})
),
done as (
  select f.id, f.expires_on from turno.jobs_final f join left_behind l on l.job_id = f.id for update of f skip locked
),
orphans as materialized (
  select job_id from left_behind l where not exists (select from turno.jobs_final f where f.id = l.job_id)
),
orphan_attempts as (
  delete from turno.job_attempts_live a using orphans o where a.job_id = o.job_id
),
orphan_changes as (
  delete from turno.job_state_changes_live c using orphans o where c.job_id = o.job_id
)`,
  result: "select ((select count(*) from done) + (select count(*) from orphans))::int as taken",
});

/**
 * Processing → Scheduled for claims that never started: due at once, in their old place, nothing recorded: its timeline keeps when it
 * first came into its queue. Those with a concurrency key give it back and wait for it, mostly as the first. Those with a
 * cancel request go to Cancelled. $1 worker · $2 uuid[] jobs · $3 bigint[] tokens. Rows: those that had a concurrency key.
 */
export const RETURN_CLAIMS = `
with owned as (
  select j.id, j.cancel_requested_at is not null as cancelled
  from turno.jobs_live j
  join unnest($2::uuid[], $3::bigint[]) as i (job, token) on j.id = i.job and j.dispatch_id = i.token
  where j.worker_id = $1::uuid and j.state = 'Processing'
  for update of j
),
returned as (
  update turno.jobs_live j
  set state = 'Scheduled', hold = case when j.concurrency_key is not null then 'key' end, dispatch_id = null, worker_id = null, claimed_at = null,
    started_at = null, lease_counter = 0
  from owned o
  where j.id = o.id and not o.cancelled
  returning j.id, j.queue, j.concurrency_key
),
ended as (
  delete from turno.jobs_live j
  using owned o
  where j.id = o.id and o.cancelled
  returning j.*, ${CANCELLED_EXPIRY} as expires
),
finished as (
  insert into turno.jobs_final (final, expires_on, state, finished_at, ${KEPT_COLUMNS})
  select true, expires, 'Cancelled', now(), ${KEPT_COLUMNS} from ended
),
changes as (
  insert into turno.job_state_changes_final (job_id, final, expires_on, at, from_state, to_state, reason)
  select e.id, true, e.expires, c.at, c.from_state, c.to_state, c.reason
  from ended e
  cross join lateral (values
    (e.enqueued_at, 'Scheduled', 'Enqueued', e.enqueued_why),
    (e.claimed_at, 'Enqueued', 'Processing', 'claimed'),
    (now(), 'Processing', 'Cancelled', 'cancelled')) as c (at, from_state, to_state, reason)
  where c.to_state <> 'Enqueued' or e.enqueued_why in ('due', 'hold released')
),
counted as (
  insert into turno.counter_deltas (queue, processing, scheduled, cancelled)
  select queue, -count(*), count(*) filter (where not cancelled), count(*) filter (where cancelled)
  from (select queue, false as cancelled from returned union all select queue, true from ended) as moved
  group by queue
)
select id, concurrency_key as key from returned where concurrency_key is not null
union all
select id, concurrency_key from ended where concurrency_key is not null`;

/**
 * A note on executions of one worker. Rows that are locked at this moment are passed over and come back as the result: to wait
 * for a finish of the same rows in another order is a deadlock. $1 worker · $2 uuid[] jobs · $3 bigint[] tokens, then `columns`.
 */
const note = (options: { readonly arrays: string; readonly columns: string; readonly set: string }): string => `
with input as (
  select * from unnest($2::uuid[], $3::bigint[], ${options.arrays}) as i (job, token, ${options.columns})
),
free as (
  select j.id
  from turno.jobs_live j
  join input i on j.id = i.job and j.dispatch_id = i.token
  where j.worker_id = $1::uuid and j.state = 'Processing'
  for update of j skip locked
),
noted as (
  update turno.jobs_live j
  set ${options.set}
  from free f
  join input i on i.job = f.id
  where j.id = f.id
  returning j.id
)
select j.id
from turno.jobs_live j
join input i on j.id = i.job and j.dispatch_id = i.token
where j.worker_id = $1::uuid and j.state = 'Processing' and not exists (select from noted n where n.id = j.id)`;

/** Writes the start of executions that run on. $4 bigint[] running ms. */
export const MARK_STARTED = note({
  arrays: "$4::bigint[]",
  columns: "running_ms",
  set: "started_at = coalesce(j.started_at, now() - i.running_ms * interval '1 millisecond')",
});

/** $4 real[] percents · $5 text[] messages. */
export const REPORT_PROGRESS = note({
  arrays: "$4::real[], $5::text[]",
  columns: "percent, message",
  set: "progress = i.percent, progress_message = i.message",
});
