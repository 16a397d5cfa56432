-- Most jobs succeed, most of them at once. What a success did stands in the job's own row, so its finish writes one row.
-- Attempts and timelines are read from the views below. Finishes of before have written an attempt and history rows as well.

-- The code and the revision of the execution that succeeded.
alter table turno.jobs add column succeeded_bundle text, add column succeeded_revision bigint;

create view turno.job_executions as
select job_id, final, expires_on, execution, generation, dispatch_id, worker_id, outcome, started_at, finished_at, error, stack, bundle_hash, revision
from turno.job_attempts
union all
select j.id, true, j.expires_on, j.execution, j.generation, j.dispatch_id, j.worker_id, 'succeeded', j.started_at, j.finished_at, null, null, j.succeeded_bundle, j.succeeded_revision
from turno.jobs_final j
where j.state = 'Succeeded' and not exists (
  select from turno.job_attempts_final a
  where a.job_id = j.id and a.expires_on = j.expires_on and a.dispatch_id = j.dispatch_id);

create view turno.job_timeline as
select job_id, final, expires_on, at, from_state, to_state, reason
from turno.job_state_changes
union
select j.id, true, j.expires_on, s.at, s.from_state, s.to_state, s.reason
from turno.jobs_final j
cross join lateral (values
  (j.enqueued_at, 'Scheduled', 'Enqueued', j.enqueued_why),
  (j.claimed_at, 'Enqueued', 'Processing', 'claimed'),
  (j.finished_at, 'Processing', 'Succeeded', 'finished')) as s (at, from_state, to_state, reason)
where j.state = 'Succeeded' and (s.to_state <> 'Enqueued' or s.reason in ('due', 'hold released'));
