-- What handlers enqueue and put off, and what workers say of themselves.

-- The job whose execution enqueued this one.
alter table turno.jobs add column parent_id uuid;
create index jobs_live_parent on turno.jobs_live (parent_id) where parent_id is not null;
create index jobs_final_parent on turno.jobs_final (parent_id) where parent_id is not null;

alter table turno.job_attempts drop constraint job_attempts_outcome_check;
alter table turno.job_attempts add constraint job_attempts_outcome_check
  check (outcome in ('succeeded', 'failed', 'timed-out', 'cancelled', 'returned', 'lost', 'snoozed'));

alter table turno.workers
  -- The database's clock less the worker's, measured with each heartbeat; null: not measured yet.
  add column clock_skew_ms integer,
  -- Handlers that were ended since the worker started because they ignored their abort.
  add column handlers_cut_off integer not null default 0,
  -- Handlers that go on running now although they were to be ended.
  add column handlers_stuck integer not null default 0,
  -- The last renewals of its leases had no answer.
  add column leases_failing boolean not null default false;
