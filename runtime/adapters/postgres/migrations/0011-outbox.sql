-- The transactional outbox: what a message broker is to be told, written in the transactions that it tells of.

alter table turno.installation
  -- Part of every name in a broker, so that two installations can share one.
  add column short_id text not null default left(replace(gen_random_uuid()::text, '-', ''), 10),
  add column transport text not null default 'postgres' check (transport in ('postgres', 'rabbitmq', 'servicebus'));

create table turno.outbox_message (
  id            bigint generated always as identity primary key,
  kind          text not null check (kind in ('dispatch', 'marker', 'dead-letter')),
  -- Of dispatches and dead letters.
  job_id        uuid,
  -- The dispatch token, or the marker's number.
  token         bigint,
  queue         text,
  -- Of dead letters: what other systems are told.
  body          jsonb,
  created_at    timestamptz not null default now(),
  -- Published from then on: later than it was made when the broker had no queue for it.
  due_at        timestamptz not null default now(),
  tries         integer not null default 0,
  check (kind <> 'dispatch' or (job_id is not null and token is not null and queue is not null)),
  check (kind <> 'marker' or (token is not null and queue is not null)),
  check (kind <> 'dead-letter' or (job_id is not null and body is not null))
) with (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
create index outbox_message_due on turno.outbox_message (due_at, id);

-- Put behind what a queue held at one moment. When it has come out, what it was behind has come out as well.
create table turno.outbox_marker (
  id            bigint generated always as identity primary key,
  queue         text not null,
  -- Jobs up to this token had left the outbox by then.
  upto_token    bigint not null,
  -- Jobs up to this token were looked for already.
  done_token    bigint not null default 0,
  -- And had been in their queue before this moment.
  aged_at       timestamptz not null,
  created_at    timestamptz not null default now(),
  consumed_at   timestamptz,
  -- When its jobs were looked for; the last one of a queue stays, so that the next comes in a while.
  shown_at      timestamptz
);
create index outbox_marker_queue on turno.outbox_marker (queue, id);

-- The two below run only while the transport is a broker: their triggers are made and dropped with it.

create function turno.tell_of_new_jobs() returns trigger language plpgsql as $$
begin
  insert into turno.outbox_message (kind, job_id, token, queue)
  select 'dispatch', id, dispatch_id, queue from entered where state = 'Enqueued';
  return null;
end $$;

create function turno.tell_of_moved_job() returns trigger language plpgsql as $$
begin
  insert into turno.outbox_message (kind, job_id, token, queue) values ('dispatch', new.id, new.dispatch_id, new.queue);
  return null;
end $$;

create function turno.tell_of_dead_letters() returns trigger language plpgsql as $$
begin
  insert into turno.outbox_message (kind, job_id, queue, body)
  select 'dead-letter', d.job_id, d.queue, jsonb_build_object(
    'deadLetter', d.id, 'jobId', d.job_id, 'type', d.type, 'queue', d.queue, 'reason', d.reason, 'attempts', d.attempts,
    'error', left(d.error, 8192), 'stack', left(d.stack, 16384), 'failedAt', to_char(d.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
  from entered d;
  return null;
end $$;
