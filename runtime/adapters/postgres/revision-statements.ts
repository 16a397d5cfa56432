/**
 * Revisions: what is in force, and the one transaction that changes it. All statements of an apply run under
 * LOCK_RECONCILERS, so none of them meets another apply; schedules are locked against the scheduler too.
 */

/** One reconciler at a time, to the end of its transaction. */
export const LOCK_RECONCILERS = `
select pg_advisory_xact_lock(hashtextextended('turno.reconcile', 0))`;

/** A look without an apply sees one moment. */
export const READ_ONE_MOMENT = `
set transaction isolation level repeatable read, read only`;

/** The clock's own time: under the lock it is later than everything an earlier apply decided. */
export const READ_FACTS = `
select clock_timestamp() as now, cold_starts
from turno.installation`;

const REVISION_COLUMNS = `
  r.number, r.source, s.origin, r.content_hash, r.commit_id, r.base_commit, r.author, r.committed_at, r.message,
  r.applied_at, r.applied_by, r.rollback_of, r.held_content`;

/** No row: nothing was ever applied. */
export const READ_REVISION_IN_FORCE = `
select ${REVISION_COLUMNS}
from turno.revisions r
join turno.sources s on s.name = r.source
order by r.number desc
limit 1`;

/** $1 source, $2 content hash. No row: these files were never applied. */
export const FIND_REVISION = `
select ${REVISION_COLUMNS}
from turno.revisions r
join turno.sources s on s.name = r.source
where r.source = $1 and r.content_hash = $2
order by r.number desc
limit 1`;

/** $1 the number below which they lie, $2 how many. */
export const LIST_REVISIONS = `
select ${REVISION_COLUMNS}, r.changes
from turno.revisions r
join turno.sources s on s.name = r.source
where r.number < $1
order by r.number desc
limit $2`;

/** $1 number. No row: there is none. */
export const READ_REVISION = `
select ${REVISION_COLUMNS}
from turno.revisions r
join turno.sources s on s.name = r.source
where r.number = $1`;

/** Rows that workers and the scheduler run by and that are not what the objects in force say. */
export const READ_EDITED = `
select 'Schedule' as kind, coalesce(o.name, r.name) as name,
  case when r.name is null then 'missing' when o.name is null then 'undeclared' else 'edited' end as what
from (select name, spec from turno.objects where kind = 'Schedule' and removed_in is null) as o
full join turno.recurring_jobs r on r.name = o.name
where r.name is null or o.name is null or r.spec is distinct from o.spec
union all
select 'Queue', o.name, case when q.name is null then 'missing' else 'edited' end
from turno.objects o
left join turno.queues q on q.name = o.name
where o.kind = 'Queue' and o.removed_in is null
  and (q.name is null or q.concurrency is distinct from (o.spec ->> 'concurrency')::integer
    or q.declared_suspended is distinct from (o.spec ->> 'suspend')::boolean)
union all
select 'Job', v.name, case when t.name is null or t.removed then 'missing' else 'edited' end
from turno.job_type_versions v
left join turno.job_types t on t.name = v.name
where v.removed_in is null and (t.name is null or t.removed or t.definition_hash <> v.definition_hash)
order by 1, 2`;

export const READ_PAUSES = `
select kind, name, paused_by as "by", reason, until
from turno.overlays
where until is null or until > now()
order by kind, name`;

/** $1 the revision whose objects are meant. */
export const READ_OBJECTS_OF = `
select kind, name, labels, description, spec, file, line
from turno.objects
where introduced_in <= $1 and (removed_in is null or removed_in > $1)
order by kind collate "C", name collate "C"`;

/** $1 the revision whose job types are meant. */
export const READ_DEFINITIONS_OF = `
select v.name, v.definition_hash, d.definition
from turno.job_type_versions v
join turno.job_definitions d on d.hash = v.definition_hash
where v.introduced_in <= $1 and (v.removed_in is null or v.removed_in > $1)
order by v.name collate "C"`;

export const READ_OBJECTS = `
select kind, name, labels, description, spec, file, line
from turno.objects
where removed_in is null
order by kind collate "C", name collate "C"`;

export const READ_JOB_TYPES = `
select t.name, t.definition_hash, d.definition, t.removed
from turno.job_types t
join turno.job_definitions d on d.hash = t.definition_hash
order by t.name`;

export const READ_SCHEDULES = `
select name, timing_hash, coalesce((spec ->> 'suspend')::boolean, false) as suspended,
  exists (select from turno.overlays p where p.kind = 'Schedule' and p.name = recurring_jobs.name) as paused, next_fire_at
from turno.recurring_jobs
order by name`;

/** As READ_SCHEDULES; the scheduler can't move a schedule on between the decision and the commit. */
export const LOCK_SCHEDULES = `${READ_SCHEDULES}
for update`;

/** $1 name, $2 origin. */
export const UPSERT_SOURCE = `
insert into turno.sources (name, origin)
values ($1, $2)
on conflict (name) do update set origin = excluded.origin`;

/** $1 source, $2 content hash, $3 commit, $4 base commit, $5 author, $6 committed at, $7 message, $8 applied at, $9 by, $10 changes, $11 rollback of, $12 held content. */
export const INSERT_REVISION = `
insert into turno.revisions
  (source, number, content_hash, commit_id, base_commit, author, committed_at, message, applied_at, applied_by, changes,
   rollback_of, held_content)
values ($1, nextval('turno.revision_seq'), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
returning number`;

/** $1 revision, $2 kinds and $3 names of the objects whose current version ends. */
export const END_VERSIONS = `
update turno.objects o
set removed_in = $1
from unnest($2::text[], $3::text[]) as ended (kind, name)
where o.kind = ended.kind and o.name = ended.name and o.removed_in is null`;

/** $1 source, $2 revision, $3 versions as a JSON list. */
export const INSERT_VERSIONS = `
insert into turno.objects (source, kind, name, labels, description, spec, spec_hash, file, line, introduced_in)
select $1, v.kind, v.name, v.labels, v.description, v.spec, v.spec_hash, v.file, v.line, $2
from jsonb_to_recordset($3::jsonb)
  as v (kind text, name text, labels jsonb, description text, spec jsonb, spec_hash text, file text, line integer)`;

/** $1 hashes. The bundles that need not be sent again. */
export const FIND_BUNDLES = `
select hash
from turno.handler_bundles
where hash = any ($1::text[])`;

/** $1 hash, $2 handler, $3 code, $4 externals. */
export const INSERT_BUNDLE = `
insert into turno.handler_bundles (hash, handler, code, externals)
values ($1, $2, $3, $4)
on conflict (hash) do nothing`;

export const LOAD_BUNDLE = `
select code
from turno.handler_bundles
where hash = $1`;

/** $1 definitions as a JSON list. */
export const INSERT_DEFINITIONS = `
insert into turno.job_definitions (hash, definition)
select d.hash, d.definition
from jsonb_to_recordset($1::jsonb) as d (hash text, definition jsonb)
on conflict (hash) do nothing`;

/** $1 revision, $2 job types as a JSON list. */
export const UPSERT_JOB_TYPES = `
insert into turno.job_types (name, object_id, definition_hash, revision, queue, removed)
select t.name, o.id, t.definition_hash, $1, t.queue, false
from jsonb_to_recordset($2::jsonb) as t (name text, definition_hash text, queue text)
join turno.objects o on o.kind = 'Job' and o.name = t.name and o.removed_in is null
on conflict (name) do update
set object_id = excluded.object_id, definition_hash = excluded.definition_hash, revision = excluded.revision,
  queue = excluded.queue, removed = false`;

/** $1 revision, $2 names of the job types whose current version ends. */
export const END_JOB_TYPE_VERSIONS = `
update turno.job_type_versions
set removed_in = $1
where name = any ($2::text[]) and removed_in is null`;

/** $1 revision, $2 job types as a JSON list. */
export const INSERT_JOB_TYPE_VERSIONS = `
insert into turno.job_type_versions (name, definition_hash, introduced_in)
select t.name, t.definition_hash, $1
from jsonb_to_recordset($2::jsonb) as t (name text, definition_hash text)`;

/** $1 names. The rows stay until their last job has drained. */
export const MARK_JOB_TYPES_REMOVED = `
update turno.job_types
set removed = true
where name = any ($1::text[])`;

/** Whether an operator has paused it: that stands over every apply. */
const paused = (kind: "Schedule" | "Queue", name: string): string =>
  `exists (select from turno.overlays p where p.kind = '${kind}' and p.name = ${name})`;

/** $1 queues as a JSON list. A queue that is merely used keeps what a row of it says already. */
export const UPSERT_QUEUES = `
insert into turno.queues (name, concurrency, suspended, declared_suspended, object_id)
select q.name, q.concurrency, q.suspended or ${paused("Queue", "q.name")}, q.suspended, o.id
from jsonb_to_recordset($1::jsonb) as q (name text, concurrency integer, suspended boolean, declared boolean)
left join turno.objects o on q.declared and o.kind = 'Queue' and o.name = q.name and o.removed_in is null
on conflict (name) do update
set concurrency = excluded.concurrency, suspended = excluded.suspended, declared_suspended = excluded.declared_suspended,
  object_id = excluded.object_id
where excluded.object_id is not null`;

/** $1 names. Jobs may still wait in them, so the rows stay, without limits. */
export const RELEASE_QUEUES = `
update turno.queues
set concurrency = null, suspended = ${paused("Queue", "queues.name")}, declared_suspended = false, object_id = null
where name = any ($1::text[])`;

/** $1 revision, $2 schedules as a JSON list, $3 the time of the apply. `keeps` leaves the next fire to the scheduler. */
export const WRITE_SCHEDULES = `
with wanted as (
  select w.*, o.id as object_id
  from jsonb_to_recordset($2::jsonb)
    as w (name text, job_type text, spec jsonb, timing_hash text, suspended boolean, keeps boolean, next_fire_at timestamptz, fired_cold_start bigint)
  join turno.objects o on o.kind = 'Schedule' and o.name = w.name and o.removed_in is null
),
updated as (
  update turno.recurring_jobs r
  set object_id = w.object_id, revision = $1, job_type = w.job_type, spec = w.spec, timing_hash = w.timing_hash,
    suspended = w.suspended or ${paused("Schedule", "r.name")}, updated_at = $3,
    decided_until = case when w.keeps then r.decided_until else $3 end,
    sla_due_at = case when w.spec ? 'sla' then $3 end, sla_since = case when w.spec ? 'sla' then case when w.keeps then coalesce(r.sla_since, $3) else $3 end end,
    next_fire_at = case when w.keeps then r.next_fire_at else w.next_fire_at end,
    awaits_finish = r.awaits_finish and w.keeps,
    fired_cold_start = coalesce(w.fired_cold_start, r.fired_cold_start)
  from wanted w
  where r.name = w.name
  returning r.name
)
insert into turno.recurring_jobs
  (name, object_id, revision, job_type, spec, timing_hash, suspended, next_fire_at, decided_until, sla_due_at, sla_since, fired_cold_start, updated_at)
select w.name, w.object_id, $1, w.job_type, w.spec, w.timing_hash, w.suspended or ${paused("Schedule", "w.name")}, w.next_fire_at, $3,
  case when w.spec ? 'sla' then $3 end, case when w.spec ? 'sla' then $3 end,
  coalesce(w.fired_cold_start, 0), $3
from wanted w
where not exists (select from updated u where u.name = w.name)`;

/** $1 old names, $2 new ones. The recorded fires go along, but for those that the new name has already. */
export const RENAME_SCHEDULES = `
with names as (select * from unnest($1::text[], $2::text[]) as n (old_name, new_name)),
paused as (
  update turno.overlays o set name = n.new_name from names n where o.kind = 'Schedule' and o.name = n.old_name
),
misses as (
  update turno.sla_misses m set schedule = n.new_name from names n where m.schedule = n.old_name
    and not exists (select from turno.sla_misses x where x.schedule = n.new_name)
),
fires as (
  update turno.schedule_fires f set schedule = n.new_name from names n where f.schedule = n.old_name
    and not exists (select from turno.schedule_fires x where x.schedule = n.new_name and x.fire_at = f.fire_at)
)
update turno.recurring_jobs r
set name = n.new_name
from names n
where r.name = n.old_name`;

/** $1 names. Jobs that they made stay. */
export const DELETE_SCHEDULES = `
delete from turno.recurring_jobs
where name = any ($1::text[])`;

/** $1 types, $2 the number up to which each is counted. */
export const COUNT_LIVE_JOBS = `
select t.type, counted.jobs
from unnest($1::text[]) as t (type),
  lateral (select count(*)::integer as jobs from (select from turno.jobs_live j where j.type = t.type limit $2) as found) as counted
where counted.jobs > 0`;

/**
 * $1 type, $2 the number of jobs, $3 the bytes of their payloads together. Only so many of the newest live jobs are
 * looked through, since no index leads to the jobs of a type.
 */
export const LOAD_WAITING_PAYLOADS = `
with newest as (
  select id, type, state, payload, payload_external
  from turno.jobs_live
  order by id desc
  limit 100000
),
waiting as (
  select n.id, coalesce(n.payload, p.payload) as payload
  from (
    select * from newest
    where type = $1 and state in ('Scheduled', 'Enqueued')
    order by id desc
    limit $2
  ) as n
  left join turno.job_payloads p on n.payload_external and p.job_id = n.id
),
measured as (
  select id, payload, sum(octet_length(payload::text)) over (order by id desc) as bytes
  from waiting
)
select payload
from measured
where bytes <= $3
order by id desc`;

/** $1 source, $2 origin, $3 ok, $4 revision, $5 problems, $6 status (null: not reached), $7 commit, $8 stale after. */
export const RECORD_SYNC = `
insert into turno.sync_status as s
  (source, origin, checked_at, ok, last_ok_at, revision, problems, status, commit_id, stale_after_ms)
values ($1, $2, now(), $3, case when $3 then now() end, $4, $5, coalesce($6, 'OutOfSync'), $7, $8)
on conflict (source) do update
set origin = excluded.origin, checked_at = excluded.checked_at, ok = excluded.ok,
  last_ok_at = coalesce(excluded.last_ok_at, s.last_ok_at), revision = excluded.revision, problems = excluded.problems,
  status = coalesce($6, s.status), commit_id = coalesce($7, s.commit_id), stale_after_ms = excluded.stale_after_ms,
  reached_at = case when $6::text is null then s.reached_at else now() end`;

export const LOAD_SYNC_STATUS = `
select source, origin, checked_at, ok, last_ok_at, revision, problems, commit_id, reached_at,
  case
    when status in ('Synced', 'OutOfSync') and reached_at < now() - stale_after_ms * interval '1 millisecond' then 'Stale'
    else status
  end as status
from turno.sync_status
order by checked_at desc`;
