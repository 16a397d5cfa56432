-- Calendars, pauses, and what is expected of schedules. The checks are wider than before, so every row keeps them already.
alter table turno.objects drop constraint objects_kind_check;
alter table turno.objects add constraint objects_kind_check
  check (kind in ('Project', 'Queue', 'Policy', 'Job', 'Schedule', 'Calendar')) not valid;
alter table turno.schedule_fires drop constraint schedule_fires_outcome_check;
alter table turno.schedule_fires add constraint schedule_fires_outcome_check
  check (outcome in ('fired', 'missed', 'superseded', 'overlapped', 'calendar', 'manual', 'on-start', 'backfill')) not valid;

alter table turno.recurring_jobs
  -- Up to here every instant has fired or was left out: what a calendar leaves out is told once.
  add column decided_until timestamptz,
  -- When what is expected of it is judged next; null: nothing is.
  add column sla_due_at timestamptz,
  -- From here on runs are expected; up to here they were judged; the last success that was seen.
  add column sla_since timestamptz,
  add column sla_judged_at timestamptz,
  add column sla_success_at timestamptz;
create index recurring_jobs_sla on turno.recurring_jobs (sla_due_at) where not suspended and sla_due_at is not null;

-- What an operator laid over the files: a pause. It survives every apply and is never written to git.
-- `suspended` of a schedule or a queue is what is in force: suspended by the files, or paused.
create table turno.overlays (
  kind          text not null check (kind in ('Schedule', 'Queue')),
  name          text not null,
  paused_by     text not null,
  reason        text,
  paused_at     timestamptz not null default now(),
  -- The first instant that is no longer paused; null: until somebody resumes it.
  until         timestamptz,
  primary key (kind, name)
);
create index overlays_until on turno.overlays (until) where until is not null;

-- Whether the files suspend it.
alter table turno.queues add column declared_suspended boolean not null default false;
update turno.queues set declared_suspended = suspended;

-- Runs that were expected and did not come.
create table turno.sla_misses (
  schedule      text not null,
  expectation   text not null check (expectation in ('finish-by', 'max-age')),
  -- When it was expected at the latest.
  due_at        timestamptz not null,
  noticed_at    timestamptz not null default now(),
  -- The job that tells people; null: none is declared.
  job_id        uuid,
  primary key (schedule, expectation, due_at)
);
