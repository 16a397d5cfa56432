import { declaration, SHOWN_STATE } from "./panel-statements.ts";

/** Reading jobs for the API and the panel: lists walk ids downwards and look at a bounded number of rows. */

/** Rows that one page of the job list looks at, at most. */
export const LIST_WINDOW = 20_000;

const JOB_COLUMNS = `
  j.id, j.type, j.queue, ${SHOWN_STATE} as state, j.hold, j.priority, j.result_error, j.error, j.progress, j.progress_message,
  j.failures, coalesce(j.max_attempts, (d.definition #>> '{policy,retry,maxAttempts}')::int) as max_attempts,
  coalesce(j.timeout_ms, (d.definition ->> 'timeoutMs')::bigint) as timeout_ms, j.execution, j.lost, j.generation,
  j.concurrency_key, j.run_at, j.created_at, j.finished_at,
  -- A short execution leaves its start only in its attempt; the day of expiry names the one partition to look into.
  coalesce(j.started_at, case when j.final then (
    select a.started_at from turno.job_attempts a
    where a.job_id = j.id and a.final = j.final and a.expires_on = j.expires_on
    order by a.execution desc
    limit 1) end) as started_at,
  j.cancel_requested_at is not null as cancel_requested, coalesce(w.name, j.worker_id::text) as worker,
  j.schedule, j.fire_at, j.fire_late_ms, ${declaration("j.object_id")} as source`;

const JOB_JOINS = `
left join turno.job_types t on t.name = j.type
left join turno.job_definitions d on d.hash = t.definition_hash
left join turno.workers w on w.id = j.worker_id`;

/** Which rows a page walks over: all by id, or those that one schedule fired. */
export type ListScope = "ids" | "schedule";

const window = (scope: ListScope) => `
  select j.*
  from ${
    scope === "ids"
      ? "turno.jobs j"
      : `(
    select job_id from turno.schedule_fires
    where schedule = $6 and job_id < $1::uuid
    order by job_id desc
    limit ${LIST_WINDOW / 10}
  ) as f
  join turno.jobs j on j.id = f.job_id`
  }
  where j.id < $1::uuid and j.id between $2::uuid and $3::uuid and j.final = any($4::boolean[])
    and (not $5::boolean or j.state = 'Processing')
  order by j.id desc`;

/**
 * A page of jobs, newest first.
 * $1 uuid before · $2, $3 uuid range of ids · $4 boolean[] final or live · $5 only the rows in Processing · $6 text schedule
 * $7 text[] states as shown · $8 text type · $9 text queue · $10 text[] the type has this text · $11 bigint revision
 * $12 int limit · $13 boolean with payload and result
 */
export const listJobs = (scope: ListScope) => `
with page as materialized (
  select j.*
  from (${window(scope)} limit ${LIST_WINDOW}) as j
  where ($6::text is null or j.schedule = $6)
    and ($7::text[] is null or ${SHOWN_STATE} = any($7))
    and ($8::text is null or j.type = $8)
    and ($9::text is null or j.queue = $9)
    and ($10::text is null or strpos(j.type, $10) > 0)
    and ($11::bigint is null or j.object_id in (select id from turno.objects where introduced_in = $11))
  order by j.id desc
  limit $12
)
select ${JOB_COLUMNS},
  case when $13 then coalesce(j.payload, (select p.payload from turno.job_payloads p where j.payload_external and p.job_id = j.id)) end as payload,
  case when $13 then j.result end as result
from page j
${JOB_JOINS}
order by j.id desc`;

/** The last row that a short page has looked at, when there is more below it. $1 to $6 as in the list. */
export const listEnd = (scope: ListScope) => `
select id from (${window(scope)} offset ${(scope === "ids" ? LIST_WINDOW : LIST_WINDOW / 10) - 1} limit 1) as j`;

/** Children that a job's page names. */
export const CHILDREN_SHOWN = 100;

/** One job with its attempts and state changes from one snapshot. $1 uuid. No row: there is no such job. */
export const LOAD_JOB = `
select now() as now, ${JOB_COLUMNS},
  coalesce(j.payload, (select p.payload from turno.job_payloads p where j.payload_external and p.job_id = j.id)) as payload,
  j.result, j.dispatch_id, j.claimed_at, j.enqueued_at, j.enqueued_why, r.message as commit_message, r.committed_at,
  (select jsonb_agg(jsonb_build_object(
      'execution', a.execution, 'worker', coalesce(aw.name, a.worker_id::text), 'outcome', a.outcome, 'startedAt', a.started_at,
      'finishedAt', a.finished_at, 'error', a.error, 'stack', a.stack, 'bundle', a.bundle_hash, 'revision', a.revision)
      order by a.execution desc, a.finished_at desc)
   from turno.job_executions a
   left join turno.workers aw on aw.id = a.worker_id
   where a.job_id = j.id) as attempts,
  (select jsonb_agg(jsonb_build_object('at', c.at, 'from', c.from_state, 'to', c.to_state, 'reason', c.reason))
   from turno.job_timeline c
   where c.job_id = j.id) as changes,
  j.parent_id, (
    select jsonb_build_object('type', p.type, 'state', case when p.state = 'Processing' and p.started_at is null then 'Enqueued' else p.state end)
    from turno.jobs p
    where p.id = j.parent_id) as parent,
  (select jsonb_agg(jsonb_build_object('id', c.id, 'type', c.type, 'state', c.state) order by c.id)
   from (
     select j.id, j.type, ${SHOWN_STATE} as state
     from turno.jobs j
     where j.parent_id = $1::uuid
     order by j.id
     limit ${CHILDREN_SHOWN + 1}
   ) as c) as children,
  case
    when j.lost > 0 then 'lost'
    when j.lost_unstarted >= (d.definition #>> '{policy,maxLostUnstarted}')::int then 'lost-unstarted'
    when j.returns >= (d.definition #>> '{policy,maxReturns}')::int then 'returned'
  end as runs_alone
from turno.jobs j
${JOB_JOINS}
left join turno.objects o on o.id = j.object_id
left join turno.revisions r on r.source = o.source and r.number = o.introduced_in
where j.id = $1::uuid`;
