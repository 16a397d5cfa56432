/**
 * The outbox. Its messages are written by triggers (0011-outbox.sql) in the transactions that they tell of; what is here takes them out,
 * and finds jobs whose messages the broker has lost.
 */

/** The installation's name in brokers and its transport. */
export const LOAD_INSTALLATION = `
select short_id as id, transport from turno.installation`;

/**
 * The relay's turn, for one transaction, in which the outbox is read by its index: statistics of when it was empty make a full one a scan and
 * a sort. No row: another process has it.
 */
export const TRY_RELAY_LOCK = `
select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)
from (select pg_try_advisory_xact_lock(hashtext('turno.relay')) as taken) as turn
where taken`;

/** As TRY_RELAY_LOCK, and waits for it: nobody publishes while the transport changes. */
export const WAIT_FOR_RELAY_LOCK = `
select pg_advisory_xact_lock(hashtext('turno.relay'))`;

/**
 * The oldest messages that are due. By what is there: one that commits late comes with a later look.
 * $1 limit · $2 from when on, 'epoch' for all. Under the relay's lock.
 */
export const TAKE_OUTBOX = `
select id, kind, job_id, token, queue, body, due_at
from turno.outbox_message
where due_at <= now() and due_at >= $2::timestamptz
order by due_at, id
limit $1::bigint`;

/**
 * Removes what was confirmed; what the broker has no queue for comes again after 1 s, 2 s, 4 s … 60 s.
 * $1 bigint[] confirmed · $2 bigint[] put off. Under the lock that TAKE_OUTBOX ran under, in the same transaction.
 */
export const SETTLE_OUTBOX = `
with confirmed as (
  delete from turno.outbox_message where id = any ($1::bigint[])
)
update turno.outbox_message
set tries = tries + 1, due_at = clock_timestamp() + least(60, power(2, least(tries, 6))) * interval '1 second'
where id = any ($2::bigint[])`;

/** $1 most that are counted. One row. */
export const READ_OUTBOX = `
select
  (select count(*)::int from (select from turno.outbox_message limit $1::bigint) as counted) as messages,
  (select (extract(epoch from clock_timestamp() - created_at) * 1000)::float8 from turno.outbox_message order by id limit 1) as oldest_ms`;

/** Serializes changes of the transport. */
export const LOCK_TRANSPORT = `
select transport from turno.installation for update`;

/** Whoever puts jobs in a queue or ends them is over before this lock is had, and begins after the commit. */
export const LOCK_SOURCES = `
lock table turno.jobs_live, turno.dead_letters in access exclusive mode`;

/** A trigger that is only disabled would still have every inserted row copied for it. */
export const DROP_TRIGGERS = [
  "drop trigger if exists tell_of_new_jobs on turno.jobs_live",
  "drop trigger if exists tell_of_moved_job on turno.jobs_live",
  "drop trigger if exists tell_of_dead_letters on turno.dead_letters",
] as const;

/**
 * Inserts come in batches, so they are told of by the statement; of updates most are claims and renewals, which the condition
 * leaves out at the cost of looking at two columns.
 */
export const CREATE_TRIGGERS = [
  `create trigger tell_of_new_jobs after insert on turno.jobs_live
   referencing new table as entered for each statement execute function turno.tell_of_new_jobs()`,
  `create trigger tell_of_moved_job after update on turno.jobs_live
   for each row when (new.state = 'Enqueued' and new.dispatch_id is distinct from old.dispatch_id)
   execute function turno.tell_of_moved_job()`,
  `create trigger tell_of_dead_letters after insert on turno.dead_letters
   referencing new table as entered for each statement execute function turno.tell_of_dead_letters()`,
] as const;

/** What another transport was to be told of queues. $1 also dead letters. */
export const EMPTY_OUTBOX = `
with markers as (
  delete from turno.outbox_marker
)
delete from turno.outbox_message where $1::boolean or kind <> 'dead-letter'`;

/** A message for every job that is in a queue. */
export const TELL_OF_ALL = `
insert into turno.outbox_message (kind, job_id, token, queue)
select 'dispatch', id, dispatch_id, queue from turno.jobs_live where state = 'Enqueued' order by sort_at, id`;

/** $1 transport. */
export const RECORD_TRANSPORT = `
update turno.installation set transport = $1`;

/**
 * A marker behind each queue that has a job in it for longer than $1 ms whose message has left the outbox. What it stands for: tokens that
 * were given out by now, up to the first that is in the outbox still. None within $1 ms of the last, nor while one younger than $2 ms is under
 * way, or than half the age of the oldest that is, at most $3 ms. Queues are walked over in the index, one step each. Returns the markers.
 */
export const WRITE_MARKERS = `
with recursive steps as (
  select (select min(queue) from turno.jobs_live where state = 'Enqueued' and not recovered) as queue
  union all
  select (select min(queue) from turno.jobs_live where state = 'Enqueued' and not recovered and queue > s.queue)
  from steps s
  where s.queue is not null
),
unsent as (
  select queue, min(token) - 1 as upto_token from turno.outbox_message where kind = 'dispatch' group by queue
),
before as (
  select queue, max(created_at) as newest, min(created_at) filter (where consumed_at is null) as under_way_since
  from turno.outbox_marker
  group by queue
),
candidates as (
  select q.queue, coalesce(u.upto_token, d.last_value) as upto_token
  from (
    select queue from steps where queue is not null
    union
    select queue from turno.jobs_live where state = 'Enqueued' and recovered
  ) as q
  cross join turno.dispatch_seq d
  join turno.installation i on i.transport <> 'postgres'
  left join unsent u on u.queue = q.queue
  left join before b on b.queue = q.queue
  -- There jobs are claimed by the queue, and their messages only wake somebody.
  where not exists (select from turno.queues l where l.name = q.queue and (l.suspended or l.concurrency is not null))
    and (b.queue is null or b.newest <= now() - case
      when b.under_way_since is null then $1::bigint * interval '1 millisecond'
      else least($3::bigint * interval '1 millisecond', greatest($2::bigint * interval '1 millisecond', (now() - b.under_way_since) / 2)) end)
),
marked as (
  insert into turno.outbox_marker (queue, upto_token, aged_at)
  select c.queue, c.upto_token, now() - $1::bigint * interval '1 millisecond'
  from candidates c
  where exists (
    select from turno.jobs_live j
    where j.queue = c.queue and j.state = 'Enqueued' and j.dispatch_id <= c.upto_token
      and j.enqueued_at <= now() - $1::bigint * interval '1 millisecond')
  returning id, queue
)
insert into turno.outbox_message (kind, token, queue)
select 'marker', id, queue from marked
returning token`;

/** $1 marker. */
export const CONSUME_MARKER = `
update turno.outbox_marker set consumed_at = now() where id = $1::bigint and consumed_at is null`;

/**
 * Messages with the tokens that they have, for jobs that were to come out before a marker and are in its queue still: one marker a call.
 * $1 ms since it was consumed, in which what came out before it is claimed · $2 limit. One row: its queue and how many; no row: no marker.
 * Markers of before show nothing more; those of after stand before the new messages, and would have them written again.
 */
export const REDISPATCH = `
with shown as materialized (
  select id, queue, upto_token, done_token, aged_at
  from turno.outbox_marker m
  where consumed_at <= now() - $1::bigint * interval '1 millisecond' and shown_at is null
  order by queue, id desc
  limit 1
  for update skip locked
),
missing as materialized (
  select j.id, j.dispatch_id, j.queue
  from shown s
  join turno.jobs_live j on j.queue = s.queue
  where j.state = 'Enqueued' and j.dispatch_id > s.done_token and j.dispatch_id <= s.upto_token and j.enqueued_at <= s.aged_at
  order by j.dispatch_id
  limit $2::bigint
),
written as (
  insert into turno.outbox_message (kind, job_id, token, queue)
  select 'dispatch', id, dispatch_id, queue from missing
),
looked as (
  update turno.outbox_marker m
  set done_token = coalesce((select max(dispatch_id) from missing), m.done_token), shown_at = case when (select count(*) from missing) < $2::bigint then now() end
  from shown s
  where m.id = s.id
),
others as (
  delete from turno.outbox_marker m
  using shown s
  where m.queue = s.queue and m.id <> s.id and (m.id < s.id or exists (select from missing))
)
select s.queue, (select count(*)::int from missing) as jobs from shown s`;
