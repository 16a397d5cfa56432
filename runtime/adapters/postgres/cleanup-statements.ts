/** Parents whose rows expire by day; each has a default partition named with the suffix _rest. */
export const EXPIRING = ["jobs_final", "job_attempts_final", "job_state_changes_final"] as const;

/** One process at a time makes or drops partitions. */
export const LOCK_PARTITIONS = `
select pg_advisory_xact_lock(hashtext('turno.partitions'))`;

/** Days (YYYYMMDD and the next one as dates) that finishing jobs will need in the coming two days and that are not there. */
export const MISSING_DAYS = `
with kept as (
  select distinct kept.ms
  from turno.job_types t
  join turno.job_definitions d on d.hash = t.definition_hash
  cross join lateral (values
    ((d.definition #>> '{retention,succeededMs}')::bigint), ((d.definition #>> '{retention,failedMs}')::bigint), ((d.definition #>> '{retention,cancelledMs}')::bigint)) as kept (ms)
  union
  values (604800000::bigint), (2592000000)
),
day as (
  select distinct (now() + k.ms * interval '1 millisecond')::date + 1 + ahead as day
  from kept k
  cross join generate_series(0, 2) as ahead
  where k.ms is not null
)
select to_char(d.day, 'YYYYMMDD') as suffix, d.day::text as from_day, (d.day + 1)::text as to_day
from day d
where to_regclass('turno.jobs_final_' || to_char(d.day, 'YYYYMMDD')) is null
order by d.day`;

/** One day of one parent; day texts come from MISSING_DAYS, never from outside. */
export const createPartition = (day: {
  readonly parent: string;
  readonly suffix: string;
  readonly from: string;
  readonly to: string;
}): string => `
create table if not exists turno.${day.parent}_${day.suffix}
partition of turno.${day.parent} for values from ('${day.from}') to ('${day.to}')`;

/** Whether rows of a day already lie in the default partitions, which then keep that day. $1 from · $2 to. */
export const REST_HAS_DAY = `
select exists (select from turno.jobs_final_rest where expires_on >= $1::date and expires_on < $2::date)
  or exists (select from turno.job_attempts_final_rest where expires_on >= $1::date and expires_on < $2::date)
  or exists (select from turno.job_state_changes_final_rest where expires_on >= $1::date and expires_on < $2::date) as has`;

/** Day partitions of all parents that lie wholly in the past. */
export const EXPIRED_PARTITIONS = `
select c.relname as name
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent in ('turno.jobs_final'::regclass, 'turno.job_attempts_final'::regclass, 'turno.job_state_changes_final'::regclass)
  and c.relname ~ '_[0-9]{8}$'
  and to_date(right(c.relname, 8), 'YYYYMMDD') < current_date
order by c.relname`;

/** Rows that one statement takes, so that it stays short. */
export const PORTION = 5_000;

/** How many rows a statement took, as every portion tells it. */
const TAKEN = `
select count(*)::int as taken`;

/**
 * Jobs of one table with a payload of its own, and that payload; jobs that are requeued at this moment escape with theirs.
 * The table's name comes from EXPIRED_PARTITIONS.
 */
export const deleteExternal = (table: string): string => `
with gone as (
  delete from turno.${table}
  where ctid = any (array(select ctid from turno.${table} where payload_external and expires_on < current_date limit ${PORTION}))
  returning id
),
payloads as (
  delete from turno.job_payloads p using gone g where p.job_id = g.id
)${TAKEN} from gone`;

export const dropPartition = (partition: string): string => `
drop table turno.${partition}`;

const deletePortion = (table: string, isExpired: string): string => `
with gone as (
  delete from turno.${table}
  where ctid = any (array(select ctid from turno.${table} where ${isExpired} limit ${PORTION}))
  returning 1
)${TAKEN} from gone`;

/** What expired outside of the day partitions; each is repeated while it takes whole portions. */
export const DELETE_EXPIRED = [
  deleteExternal("jobs_final_rest"),
  ...["jobs_final_rest", "job_attempts_final_rest", "job_state_changes_final_rest", "dead_letters"].map((table) =>
    deletePortion(table, "expires_on < current_date"),
  ),
  deletePortion("idempotency_keys", "expires_at < now()"),
  deletePortion("unique_jobs", "expires_at < now()"),
  deletePortion(
    "unique_jobs",
    "until is not null and not exists (select from turno.jobs_live j where j.id = unique_jobs.job_id)",
  ),
  deletePortion("sla_misses", "noticed_at < now() - interval '400 days'"),
  deletePortion("schedule_fires", "decided_at < now() - interval '400 days'"),
  deletePortion("minute_statistics", "minute < now() - interval '400 days'"),
] as const;

/** Folds a portion of the deltas into totals by queue and figures by minute; one statement, so a reader sees each move once. */
export const FOLD_COUNTERS = `
with folded as (
  delete from turno.counter_deltas
  where ctid = any (array(select ctid from turno.counter_deltas limit ${PORTION}))
  returning *
),
counts as (
  insert into turno.queue_counts as c (queue, scheduled, enqueued, processing)
  select queue, sum(scheduled), sum(enqueued), sum(processing) from folded group by queue order by queue
  on conflict (queue) do update
  set scheduled = c.scheduled + excluded.scheduled, enqueued = c.enqueued + excluded.enqueued, processing = c.processing + excluded.processing
),
minutes as (
  insert into turno.minute_statistics as m (minute, queue, succeeded, failed, cancelled, executions, failures, ran_ms)
  select date_trunc('minute', at), queue, sum(succeeded), sum(failed), sum(cancelled), sum(executions), sum(failures), sum(ran_ms)
  from folded
  where succeeded <> 0 or failed <> 0 or cancelled <> 0 or executions <> 0 or failures <> 0
  group by 1, 2
  order by 1, 2
  on conflict (minute, queue) do update
  set succeeded = m.succeeded + excluded.succeeded, failed = m.failed + excluded.failed, cancelled = m.cancelled + excluded.cancelled,
    executions = m.executions + excluded.executions, failures = m.failures + excluded.failures, ran_ms = m.ran_ms + excluded.ran_ms
)${TAKEN} from folded`;

/** Job types whose document is gone and whose last job has drained. */
export const FORGET_DRAINED_TYPES = `
delete from turno.job_types t where t.removed and not exists (select from turno.jobs_live j where j.type = t.name)`;
