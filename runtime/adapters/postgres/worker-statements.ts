/** Serializes registrations, so that a cold start is counted once. */
export const LOCK_INSTALLATION = `
select cold_starts from turno.installation for update`;

/** $1 id · $2 name · $3 host · $4 pid · $5 version · $6 queues (JSON). True when no other worker was alive. */
export const REGISTER_WORKER = `
with alive as (
  select id from turno.workers where left_at is null and heartbeat_at > now() - interval '30 seconds' limit 1
),
started as (
  update turno.installation set cold_starts = cold_starts + 1 where not exists (select from alive)
  returning true as cold
),
registered as (
  insert into turno.workers (id, name, host, pid, version, queues) values ($1, $2, $3, $4, $5, $6)
)
select exists (select from started) as cold_start`;

/**
 * $1 to $6 as in REGISTER_WORKER · $7 draining · $8 text[] bundles it cannot load · $9 clock skew ms · $10 handlers cut off · $11 handlers stuck
 * $12 leases failing. A worker that was pruned meanwhile comes back. One row: the database's time.
 */
export const HEARTBEAT = `
insert into turno.workers (id, name, host, pid, version, queues, draining, unloadable_bundles, clock_skew_ms, handlers_cut_off, handlers_stuck, leases_failing)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
on conflict (id) do update
set heartbeat_at = now(), left_at = null, draining = excluded.draining, unloadable_bundles = excluded.unloadable_bundles,
  clock_skew_ms = excluded.clock_skew_ms, handlers_cut_off = excluded.handlers_cut_off, handlers_stuck = excluded.handlers_stuck,
  leases_failing = excluded.leases_failing
returning clock_timestamp() as database_time`;

/** $1 worker. */
export const DEREGISTER_WORKER = `
with released as (
  delete from turno.duties where worker_id = $1
)
update turno.workers set left_at = now() where id = $1`;

/** Takes a duty that is free or whose term is over, or extends one's own. $1 duty · $2 worker · $3 term ms. A row: held. */
export const HOLD_TERM = `
insert into turno.duties as d (duty, worker_id, expires_at)
values ($1, $2, now() + $3::bigint * interval '1 millisecond')
on conflict (duty) do update
set worker_id = excluded.worker_id, expires_at = excluded.expires_at,
  term = d.term + (d.worker_id <> excluded.worker_id)::int
where d.worker_id = excluded.worker_id or d.expires_at < now()
returning term`;

/** $1 duty · $2 worker. */
export const RELEASE_TERM = `
delete from turno.duties where duty = $1 and worker_id = $2`;

/** Workers that said goodbye or were silent for long. $1 older than ms. */
export const PRUNE_WORKERS = `
delete from turno.workers
where coalesce(left_at, heartbeat_at) < now() - $1::bigint * interval '1 millisecond'
returning id`;

/**
 * A server that was promoted goes on from an older copy of the dispatch sequence. Its timeline tells; the token's high
 * bits then rise, so that no number is given out twice. Empty: the timeline is the one seen last.
 */
export const RAISE_EPOCH = `
with server as (
  select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint as timeline
),
before as (
  select i.timeline from turno.installation i
),
moved as (
  update turno.installation i
  set timeline = s.timeline
  from server s
  where i.timeline <> s.timeline
  returning s.timeline
)
select case when b.timeline = 0 then q.last_value else setval('turno.dispatch_seq', ((q.last_value >> 40) + 1) << 40) end as token
from moved m, before b, turno.dispatch_seq q`;
