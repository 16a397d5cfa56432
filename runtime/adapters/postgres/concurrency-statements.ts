/**
 * Concurrency keys. A key has a row while a job with it is in Enqueued or Processing; the others with it wait, held, outside of the
 * runnable index. Whoever takes, hands on or frees a key has its row locked since an earlier statement of the same transaction,
 * so that the next one sees every waiter and owner that was committed before. No statement here waits for the row of a job.
 */

/** Stands for the owner between two statements of one transaction. */
const NOBODY = "00000000-0000-0000-0000-000000000000";

/**
 * Takes the keys that are free, and locks those that are not: their owner cannot leave unseen until this transaction is over.
 * $1 text[] keys. Rows: the keys that are now this transaction's to hand out.
 */
export const TAKE_FREE_KEYS = `
insert into turno.concurrency_keys as k (key, job_id)
select key, '${NOBODY}' from unnest($1::text[]) as wanted (key) order by key
on conflict (key, slot) do update set job_id = k.job_id where false
returning key`;

/** Locks the keys of jobs that have left. $1 text[] keys · $2 uuid[] their jobs. Rows: the keys that were theirs. */
export const LOCK_OWNED_KEYS = `
select k.key
from turno.concurrency_keys k
join unnest($1::text[], $2::uuid[]) as left_by (key, job) on k.key = left_by.key and k.job_id = left_by.job
order by k.key
for update of k`;

/**
 * Scheduled (held key) → Enqueued for the first waiter of each key; a key without one is freed. A waiter that is locked at this moment
 * is passed over: it is being cancelled. $1 text[] keys that this transaction has locked. Rows: the jobs that came into their queue.
 */
export const HAND_OVER_KEYS = `
with free as (
  select key from unnest($1::text[]) as free (key)
),
next as (
  select f.key, waiting.id
  from free f
  cross join lateral (
    select j.id
    from turno.jobs_live j
    where j.concurrency_key = f.key and j.hold = 'key'
    order by j.sort_at, j.id
    limit 1
    for update skip locked
  ) as waiting
),
handed as (
  update turno.concurrency_keys k set job_id = n.id, taken_at = now() from next n where k.key = n.key
),
freed as (
  delete from turno.concurrency_keys k
  using free f
  where k.key = f.key and not exists (select from next n where n.key = f.key)
),
enqueued as (
  update turno.jobs_live j
  set state = 'Enqueued', hold = null, dispatch_id = nextval('turno.dispatch_seq'), 
    -- A timeline goes forward: a job may have been put in line for an instant that is still to come.
    enqueued_at = coalesce(j.enqueued_at, greatest(clock_timestamp(), j.run_at + interval '1 microsecond')),
    -- A job that this transaction has created never waited; a claim that was given back comes back as if it had not been away.
    enqueued_why = coalesce(j.enqueued_why, case when j.created_at = now() then 'created' else 'hold released' end)
  from next n
  where j.id = n.id
  returning j.id, j.queue
),
counted as (
  insert into turno.counter_deltas (queue, scheduled, enqueued) select queue, -count(*), count(*) from enqueued group by queue
)
select id, queue from enqueued`;

/**
 * The net: a portion of the keys in order, those whose job is neither in its queue nor running. $1 text after this key · $2 limit.
 * One row: \`last\`, the last key looked at when there may be more, and the jobs that keep a key they should not.
 */
export const FIND_STALE_KEYS = `
with looked as (
  select key, job_id from turno.concurrency_keys where key > $1::text order by key limit $2::bigint
)
select case when count(*) = $2::bigint then max(key) end as last,
  coalesce(json_agg(json_build_object('id', job_id, 'key', key)) filter (where not exists (
    select from turno.jobs_live j where j.id = looked.job_id and j.concurrency_key = looked.key and j.state in ('Enqueued', 'Processing'))), '[]') as stale
from looked`;

/** The same look once more at keys that this transaction has locked. $1 text[] keys. */
export const CONFIRM_STALE_KEYS = `
select k.key
from turno.concurrency_keys k
where k.key = any ($1::text[]) and not exists (
  select from turno.jobs_live j where j.id = k.job_id and j.concurrency_key = k.key and j.state in ('Enqueued', 'Processing'))`;

/**
 * The net's other side: a portion of the keys that jobs wait for, those that nobody has. $1 text after this key · $2 limit.
 * One step in the index for each key, however many wait for it. One row, as FIND_STALE_KEYS.
 */
export const FIND_FREE_KEYS = `
with recursive step as (
  select (select min(concurrency_key) from turno.jobs_live where hold = 'key' and concurrency_key > $1::text) as key
  union all
  select (select min(concurrency_key) from turno.jobs_live where hold = 'key' and concurrency_key > s.key) from step s where s.key is not null
),
looked as (
  select key from step where key is not null limit $2::bigint
)
select case when count(*) = $2::bigint then max(key) end as last,
  coalesce(json_agg(key) filter (where not exists (select from turno.concurrency_keys k where k.key = looked.key)), '[]') as free
from looked`;
