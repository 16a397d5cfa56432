-- The whole state of an installation. Expand only: a later migration adds, it never changes what is here.
create schema if not exists turno;

create table turno.installation (
  only_row      boolean primary key default true check (only_row),
  id            uuid not null default gen_random_uuid(),
  -- Rises when a worker registers and no other is alive.
  cold_starts   bigint not null default 0,
  -- The server timeline on which the dispatch sequence's epoch was last checked.
  timeline      bigint not null default 0,
  created_at    timestamptz not null default now()
);
insert into turno.installation default values;

-- The fencing token. cache 1: numbers of one sequence only grow, whatever connection draws them.
create sequence turno.dispatch_seq as bigint cache 1;

-- ---------------------------------------------------------------- revisions

create table turno.sources (
  name          text primary key,
  -- What the source is: the folder's path or the repository's address.
  origin        text not null,
  created_at    timestamptz not null default now()
);

create table turno.revisions (
  source        text not null references turno.sources,
  number        bigint not null,
  content_hash  text not null,
  commit_id     text,
  author        text,
  committed_at  timestamptz,
  message       text,
  applied_at    timestamptz not null default now(),
  applied_by    text not null,
  -- What changed, as the plan showed it.
  changes       jsonb not null,
  primary key (source, number)
);
create sequence turno.revision_seq as bigint;

-- Every version of every declared document; the current one has removed_in null.
create table turno.objects (
  id            bigint generated always as identity primary key,
  source        text not null,
  kind          text not null check (kind in ('Project', 'Queue', 'Policy', 'Job', 'Schedule')),
  name          text not null,
  labels        jsonb not null default '{}',
  description   text,
  spec          jsonb not null,
  spec_hash     text not null,
  file          text not null,
  line          integer not null,
  introduced_in bigint not null,
  removed_in    bigint
);
create unique index objects_current on turno.objects (kind, name) where removed_in is null;
create index objects_history on turno.objects (kind, name, introduced_in);

create table turno.handler_bundles (
  hash          text primary key,
  handler       text not null,
  -- One ES module with its inline source map.
  code          text not null,
  -- Versions of native packages left out of the bundle.
  externals     jsonb not null default '{}',
  created_at    timestamptz not null default now()
);

-- Job types as workers run them, by content: the job with its policy resolved.
create table turno.job_definitions (
  hash          text primary key,
  definition    jsonb not null,
  created_at    timestamptz not null default now()
);

-- The definition in force of each job type; kept with removed = true until its last job has drained.
create table turno.job_types (
  name            text primary key,
  object_id       bigint not null references turno.objects,
  definition_hash text not null references turno.job_definitions,
  revision        bigint not null,
  queue           text not null,
  removed         boolean not null default false
);

create table turno.queues (
  name          text primary key,
  concurrency   integer check (concurrency > 0),
  suspended     boolean not null default false,
  object_id     bigint references turno.objects
);

-- ---------------------------------------------------------------- jobs

create table turno.jobs (
  id                  uuid not null,
  final               boolean not null default false,
  -- The day after which the finished job is dropped; live jobs never expire.
  expires_on          date not null default 'infinity',
  type                text not null,
  queue               text not null,
  state               text not null check (state in ('Scheduled', 'Enqueued', 'Processing', 'Succeeded', 'Failed', 'Cancelled')),
  hold                text check (hold in ('key', 'breaker', 'no-handler', 'overlap')),
  priority            smallint not null default 0 check (priority between -100 and 100),
  payload             jsonb,
  -- The payload lies in job_payloads.
  payload_external    boolean not null default false,
  result              jsonb,
  result_error        text,
  error               text,
  progress            real not null default 0,
  progress_message    text,
  failures            integer not null default 0,
  execution           integer not null default 0,
  lost                integer not null default 0,
  lost_unstarted      integer not null default 0,
  returns             integer not null default 0,
  generation          integer not null default 0,
  max_attempts        integer,
  timeout_ms          bigint,
  dispatch_id         bigint,
  -- Order inside the queue: run_at less 60 s a point of priority.
  sort_at             timestamptz not null,
  run_at              timestamptz not null,
  created_at          timestamptz not null default now(),
  -- When and why it last entered its queue; the timeline's row of it is written with the end of the execution.
  enqueued_at         timestamptz,
  enqueued_why        text check (enqueued_why in ('created', 'due', 'hold released', 'worker lost', 'requeued')),
  claimed_at          timestamptz,
  started_at          timestamptz,
  finished_at         timestamptz,
  worker_id           uuid,
  lease_counter       integer not null default 0,
  -- Recovered from a lost worker: claimed alone, with its start written.
  recovered           boolean not null default false,
  cancel_requested_at timestamptz,
  concurrency_key     text,
  schedule            text,
  fire_at             timestamptz,
  fire_late_ms        bigint,
  -- The object version that made the job: the schedule that fired it, or the job type it was enqueued as.
  object_id           bigint,
  -- It has rows in the live partitions of attempts or state changes.
  has_history         boolean not null default false,
  check (final = (state in ('Succeeded', 'Failed', 'Cancelled'))),
  check ((state = 'Processing') = (worker_id is not null) or final),
  check (hold is null or state = 'Scheduled'),
  check (state not in ('Enqueued', 'Processing') or dispatch_id is not null)
) partition by list (final);

create table turno.jobs_live partition of turno.jobs for values in (false) with (
  fillfactor = 60,
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.1
);
create table turno.jobs_final partition of turno.jobs for values in (true) partition by range (expires_on);
create table turno.jobs_final_rest partition of turno.jobs_final default;

create unique index jobs_live_id on turno.jobs_live (id);
create index jobs_live_runnable on turno.jobs_live (queue, sort_at, id) where state = 'Enqueued' and not recovered;
create index jobs_live_recovered on turno.jobs_live (queue, sort_at, id) where state = 'Enqueued' and recovered;
create index jobs_live_processing on turno.jobs_live (queue, id) where state = 'Processing';
create index jobs_live_due on turno.jobs_live (run_at) where state = 'Scheduled' and hold is null;
create index jobs_live_held on turno.jobs_live (hold, type) where hold is not null;
create index jobs_live_schedule on turno.jobs_live (schedule) where schedule is not null;
create index jobs_final_id on turno.jobs_final (id);

-- Payloads above 2 KiB, stored once so that transitions do not copy them.
create table turno.job_payloads (
  job_id        uuid primary key,
  payload       jsonb not null
);

create table turno.job_attempts (
  job_id        uuid not null,
  final         boolean not null default false,
  expires_on    date not null default 'infinity',
  execution     integer not null,
  generation    integer not null default 0,
  dispatch_id   bigint not null,
  worker_id     uuid not null,
  outcome       text not null check (outcome in ('succeeded', 'failed', 'timed-out', 'cancelled', 'returned', 'lost')),
  started_at    timestamptz,
  finished_at   timestamptz not null default now(),
  error         text,
  stack         text,
  bundle_hash   text,
  revision      bigint
) partition by list (final);
create table turno.job_attempts_live partition of turno.job_attempts for values in (false);
create table turno.job_attempts_final partition of turno.job_attempts for values in (true) partition by range (expires_on);
create table turno.job_attempts_final_rest partition of turno.job_attempts_final default;
create index job_attempts_live_job on turno.job_attempts_live (job_id);
create index job_attempts_final_job on turno.job_attempts_final (job_id);

create table turno.job_state_changes (
  job_id        uuid not null,
  final         boolean not null default false,
  expires_on    date not null default 'infinity',
  at            timestamptz not null default now(),
  from_state    text,
  to_state      text not null,
  reason        text
) partition by list (final);
create table turno.job_state_changes_live partition of turno.job_state_changes for values in (false);
create table turno.job_state_changes_final partition of turno.job_state_changes for values in (true) partition by range (expires_on);
create table turno.job_state_changes_final_rest partition of turno.job_state_changes_final default;
create index job_state_changes_live_job on turno.job_state_changes_live (job_id);
create index job_state_changes_final_job on turno.job_state_changes_final (job_id);

-- What exhausted its attempts or failed for good. Kept with the failed job's retention.
create table turno.dead_letters (
  id            bigint generated always as identity primary key,
  job_id        uuid not null,
  type          text not null,
  queue         text not null,
  payload       jsonb,
  error         text,
  stack         text,
  attempts      integer not null,
  reason        text not null,
  status        text not null default 'pending' check (status in ('pending', 'requeued', 'discarded')),
  created_at    timestamptz not null default now(),
  expires_on    date not null
);
create index dead_letters_job on turno.dead_letters (job_id);
create index dead_letters_pending on turno.dead_letters (id) where status = 'pending';

-- ---------------------------------------------------------------- time

create table turno.recurring_jobs (
  name            text primary key,
  object_id       bigint not null references turno.objects,
  revision        bigint not null,
  job_type        text not null,
  spec            jsonb not null,
  timing_hash     text not null,
  suspended       boolean not null default false,
  -- Null: never fires again, or waits for the end of its run.
  next_fire_at    timestamptz,
  last_fire_at    timestamptz,
  last_job_id     uuid,
  -- `every … from: finish` whose run is on its way.
  awaits_finish   boolean not null default false,
  -- The cold start for which runOnStart has fired.
  fired_cold_start bigint not null default 0,
  updated_at      timestamptz not null default now()
);
create index recurring_jobs_due on turno.recurring_jobs (next_fire_at) where not suspended and next_fire_at is not null;

-- Every nominal instant that was decided, kept 400 days.
create table turno.schedule_fires (
  schedule      text not null,
  fire_at       timestamptz not null,
  outcome       text not null check (outcome in ('fired', 'missed', 'superseded', 'overlapped', 'manual', 'on-start')),
  job_id        uuid,
  blocked_by    uuid,
  late_ms       bigint not null default 0,
  decided_at    timestamptz not null default now(),
  primary key (schedule, fire_at)
);
create index schedule_fires_age on turno.schedule_fires (decided_at);

-- ---------------------------------------------------------------- workers and duties

create table turno.workers (
  id                  uuid primary key,
  name                text not null,
  host                text not null,
  pid                 integer not null,
  version             text not null,
  queues              jsonb not null,
  unloadable_bundles  text[] not null default '{}',
  draining            boolean not null default false,
  registered_at       timestamptz not null default now(),
  heartbeat_at        timestamptz not null default now(),
  left_at             timestamptz
);

create table turno.duties (
  duty          text primary key,
  worker_id     uuid not null,
  term          bigint not null default 1,
  expires_at    timestamptz not null
);

-- ---------------------------------------------------------------- statistics

-- One row a statement, queue and kind of move; folded by the leader.
create table turno.counter_deltas (
  id            bigint generated always as identity,
  at            timestamptz not null default now(),
  queue         text not null,
  scheduled     integer not null default 0,
  enqueued      integer not null default 0,
  processing    integer not null default 0,
  succeeded     integer not null default 0,
  failed        integer not null default 0,
  cancelled     integer not null default 0,
  -- Executions that ended, with any outcome, and how long they ran together.
  executions    integer not null default 0,
  failures      integer not null default 0,
  ran_ms        bigint not null default 0
);

-- Jobs in the live states, by queue.
create table turno.queue_counts (
  queue         text primary key,
  scheduled     bigint not null default 0,
  enqueued      bigint not null default 0,
  processing    bigint not null default 0
);

create table turno.minute_statistics (
  minute        timestamptz not null,
  queue         text not null,
  succeeded     bigint not null default 0,
  failed        bigint not null default 0,
  cancelled     bigint not null default 0,
  executions    bigint not null default 0,
  failures      bigint not null default 0,
  ran_ms        bigint not null default 0,
  primary key (minute, queue)
);
