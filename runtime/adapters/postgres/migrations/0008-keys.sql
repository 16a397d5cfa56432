-- Concurrency keys, idempotency keys, uniqueness.

-- Who has a concurrency key: a job in Enqueued or Processing. One slot a key; limits above one will number them.
create table turno.concurrency_keys (
  key           text not null,
  slot          smallint not null default 1 check (slot = 1),
  job_id        uuid not null,
  taken_at      timestamptz not null default now(),
  primary key (key, slot)
) with (
  fillfactor = 60,
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
-- Jobs that wait for their key, in the order in which they get it.
create index jobs_live_waiting_for_key on turno.jobs_live (concurrency_key, sort_at, id) where hold = 'key';

-- What was answered to a client's request, so that the same request is answered in the same way.
create table turno.idempotency_keys (
  -- The API client; empty: the server asks for no keys, or a command wrote to the database itself.
  scope         text not null,
  key           text not null,
  request_hash  text not null,
  answer        jsonb not null,
  created_at    timestamptz not null default now(),
  expires_at    timestamptz not null,
  primary key (scope, key)
);
create index idempotency_keys_expiry on turno.idempotency_keys (expires_at);

-- The job that a duplicate is answered with.
create table turno.unique_jobs (
  type          text not null,
  key           text not null,
  job_id        uuid not null,
  -- What ends it before its time; null: nothing does.
  until         text check (until in ('started', 'finished')),
  created_at    timestamptz not null default now(),
  expires_at    timestamptz not null default 'infinity',
  primary key (type, key)
);
create index unique_jobs_expiry on turno.unique_jobs (expires_at);
