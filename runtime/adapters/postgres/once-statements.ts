/**
 * What is done once: requests with an idempotency key, and jobs with a unique key. The row of a key is taken first, so that whoever comes
 * with the same key waits; a statement after it sees what was committed meanwhile.
 */

/**
 * Takes an idempotency key that nobody used, or whose answer is forgotten. $1 scope · $2 key · $3 hash of the request · $4 retain ms
 * Empty: it was used; its row is locked.
 */
export const TAKE_IDEMPOTENCY_KEY = `
insert into turno.idempotency_keys as k (scope, key, request_hash, answer, expires_at)
values ($1, $2, $3, '[]', now() + $4::bigint * interval '1 millisecond')
on conflict (scope, key) do update
set request_hash = excluded.request_hash, answer = excluded.answer, created_at = excluded.created_at, expires_at = excluded.expires_at
where k.expires_at <= now()
returning key`;

/** $1 scope · $2 key. */
export const READ_IDEMPOTENCY_KEY = `
select request_hash, answer from turno.idempotency_keys where scope = $1 and key = $2`;

/** $1 scope · $2 key · $3 answer (JSON). */
export const ANSWER_IDEMPOTENCY_KEY = `
update turno.idempotency_keys set answer = $3::jsonb where scope = $1 and key = $2`;

const UNIQUE_INPUT = `
  select type, key, job, until, now() + for_ms * interval '1 millisecond' as expires
  from unnest($1::text[], $2::text[], $3::uuid[], $4::text[], $5::bigint[]) as i (type, key, job, until, for_ms)`;

/**
 * Takes the unique keys that no job had, and locks the others. $1 text[] types · $2 text[] keys · $3 uuid[] jobs · $4 text[] until
 * $5 bigint[] ms that they count (null: no limit). Rows: the keys that were free.
 */
export const CLAIM_UNIQUE = `
insert into turno.unique_jobs as u (type, key, job_id, until, expires_at)
select type, key, job, until, coalesce(expires, 'infinity') from (${UNIQUE_INPUT}) as input
order by type, key
on conflict (type, key) do update set job_id = u.job_id where false
returning type, key`;

/**
 * The jobs that still count, of keys that this transaction has locked: within their time, there, and not as far as their \`until\`.
 * $1 text[] types · $2 text[] keys.
 */
export const READ_UNIQUE = `
select u.type, u.key, j.id, j.state, j.queue
from turno.unique_jobs u
join unnest($1::text[], $2::text[]) as i (type, key) on u.type = i.type and u.key = i.key
join turno.jobs j on j.id = u.job_id
where u.expires_at > now() and case u.until
    when 'started' then j.execution = 0 and not j.final
    when 'finished' then not j.final
    else true
  end`;

/** As CLAIM_UNIQUE, for keys whose job counts no more. */
export const REPLACE_UNIQUE = `
update turno.unique_jobs u
set job_id = i.job, until = i.until, created_at = now(), expires_at = coalesce(i.expires, 'infinity')
from (${UNIQUE_INPUT}) as i
where u.type = i.type and u.key = i.key`;
