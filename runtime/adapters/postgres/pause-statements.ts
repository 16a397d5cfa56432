/**
 * Pauses: overlays of schedules and queues. `suspended` is what is in force, so nothing that fires or claims looks at
 * overlays. Rows are locked in the order schedule or queue, then overlay.
 */

const LAY = (kind: "Schedule" | "Queue"): string => `
laid as (
  insert into turno.overlays as o (kind, name, paused_by, reason, paused_at, until)
  select '${kind}', t.name, $2::text, $3::text, date_trunc('milliseconds', clock_timestamp()), $4::timestamptz
  from target t
  where $4::timestamptz is null or $4::timestamptz > now()
  on conflict (kind, name) do update
  set paused_by = excluded.paused_by, reason = excluded.reason, paused_at = excluded.paused_at, until = excluded.until
  returning name, paused_by, reason, paused_at, until
)`;

/** $1 name, $2 by, $3 reason, $4 until. No row: no such schedule; a row without \`paused_at\`: the end has passed. */
export const PAUSE_SCHEDULE = `
with target as (
  select name from turno.recurring_jobs where name = $1::text for update
),${LAY("Schedule")},
stopped as (
  update turno.recurring_jobs r set suspended = true from laid l where r.name = l.name
)
select t.name, l.paused_by, l.reason, l.paused_at, l.until from target t left join laid l on true`;

/** As PAUSE_SCHEDULE. */
export const PAUSE_QUEUE = `
with target as (
  select name from turno.queues where name = $1::text for update
),${LAY("Queue")},
stopped as (
  update turno.queues q set suspended = true from laid l where q.name = l.name
)
select t.name, l.paused_by, l.reason, l.paused_at, l.until from target t left join laid l on true`;

/** $1 name. No row: no such schedule. */
export const LOAD_PAUSED_SCHEDULE = `
select clock_timestamp() as now, coalesce((r.spec ->> 'suspend')::boolean, false) as suspended, r.spec, r.timing_hash,
  o.paused_by, o.reason, o.paused_at, o.until
from turno.recurring_jobs r
left join turno.overlays o on o.kind = 'Schedule' and o.name = r.name
where r.name = $1::text`;

/** As LOAD_PAUSED_SCHEDULE. */
export const LOAD_PAUSED_QUEUE = `
select clock_timestamp() as now, q.declared_suspended as suspended, null::jsonb as spec, null::text as timing_hash,
  o.paused_by, o.reason, o.paused_at, o.until
from turno.queues q
left join turno.overlays o on o.kind = 'Queue' and o.name = q.name
where q.name = $1::text`;

/** $1 name, $2 paused at, $3 timing hash, $4 next fire. No row: the pause or the timing is another one. */
export const LIFT_SCHEDULE = `
with target as (
  select r.name
  from turno.recurring_jobs r
  where r.name = $1::text and r.timing_hash = $3::text
  for update
),
lifted as (
  delete from turno.overlays o using target t where o.kind = 'Schedule' and o.name = t.name and o.paused_at = $2::timestamptz returning o.name
)
update turno.recurring_jobs r
set suspended = coalesce((r.spec ->> 'suspend')::boolean, false), decided_until = now(),
  -- Nothing is owed, a start of the installation neither.
  sla_since = case when r.sla_due_at is not null then now() end, sla_due_at = case when r.sla_due_at is not null then now() end,
  fired_cold_start = (select cold_starts from turno.installation),
  next_fire_at = case when r.awaits_finish then r.next_fire_at else $4::timestamptz end
from lifted l
where r.name = l.name
returning r.name`;

/** $1 name, $2 paused at. No row: the pause is another one. */
export const LIFT_QUEUE = `
with target as (
  select name from turno.queues where name = $1::text for update
),
lifted as (
  delete from turno.overlays o using target t where o.kind = 'Queue' and o.name = t.name and o.paused_at = $2::timestamptz returning o.name
)
update turno.queues q set suspended = q.declared_suspended from lifted l where q.name = l.name returning q.name`;

/** $1 limit. */
export const LIST_ENDED_PAUSES = `
select kind, name
from turno.overlays
where until <= now()
order by until
limit $1`;
