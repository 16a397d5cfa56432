import { createHash } from "node:crypto";
import type { Database } from "../../runtime/adapters/postgres/pool.ts";
import type { JobDefinition, ScheduleSpec } from "../../runtime/config/objects.ts";

const DAY_MS = 86_400_000;

/** A definition with the defaults of a plain job. */
export function jobDefinition(type: string, overrides: Partial<JobDefinition> = {}): JobDefinition {
  return {
    type,
    handler: `${type}.ts`,
    bundleHash: `sha256:${type}`,
    queue: "default",
    timeoutMs: 600_000,
    isolation: "thread",
    settings: {},
    payloadSchema: null,
    retention: { succeededMs: 7 * DAY_MS, cancelledMs: 7 * DAY_MS, failedMs: 30 * DAY_MS },
    policy: {
      immediateRetry: { attempts: 0, initialMs: 500 },
      retry: { maxAttempts: 5, backoff: { type: "exponential", initialMs: 15_000, maxMs: 900_000, jitter: 0.2 } },
      timeoutMs: 600_000,
      maxLost: 3,
      maxLostUnstarted: 20,
      maxReturns: 20,
    },
    ...overrides,
  };
}

/** Puts a job type in force without files. */
export async function declareJobType(database: Database, definition: JobDefinition): Promise<void> {
  const text = JSON.stringify(definition);
  const hash = `sha256:${createHash("sha256").update(text).digest("hex")}`;
  await database.query("insert into turno.sources (name, origin) values ('test', 'test') on conflict do nothing");
  await database.query(
    "insert into turno.revisions (source, number, content_hash, applied_by, changes) values ('test', 1, 'x', 'test', '[]') on conflict do nothing",
  );
  await database.query(
    "update turno.objects set removed_in = 2 where kind = 'Job' and name = $1 and removed_in is null",
    [definition.type],
  );
  const [object] = await database.query<{ id: string }>(
    "insert into turno.objects (source, kind, name, spec, spec_hash, file, line, introduced_in) values ('test', 'Job', $1, '{}', 'x', 'turno.d/test.yaml', 3, 1) returning id",
    [definition.type],
  );
  await database.query("insert into turno.job_definitions (hash, definition) values ($1, $2) on conflict do nothing", [
    hash,
    text,
  ]);
  await database.query(
    "insert into turno.job_types (name, object_id, definition_hash, revision, queue) values ($1, $2, $3, 1, $4) on conflict (name) do update set object_id = excluded.object_id, definition_hash = excluded.definition_hash, queue = excluded.queue",
    [definition.type, object?.id, hash, definition.queue],
  );
}

export interface DeclaredSchedule {
  readonly name: string;
  readonly spec: ScheduleSpec;
  readonly nextFireAt: Date | null;
  readonly timingHash?: string;
}

/** Puts a schedule in force without files; its job type must be declared. */
export async function declareSchedule(database: Database, schedule: DeclaredSchedule): Promise<void> {
  const [object] = await database.query<{ id: string }>(
    "insert into turno.objects (source, kind, name, spec, spec_hash, file, line, introduced_in) values ('test', 'Schedule', $1, $2, 'x', 'turno.d/test.yaml', 9, 1) returning id",
    [schedule.name, JSON.stringify(schedule.spec)],
  );
  await database.query(
    `insert into turno.recurring_jobs (name, object_id, revision, job_type, spec, timing_hash, suspended, next_fire_at, awaits_finish, sla_due_at, sla_since)
     select $1, $2, 1, $3, $4::jsonb, $8, $5, $6, $7, expected.now, expected.now
     from (select case when $4::jsonb ? 'sla' then now() end as now) as expected`,
    [
      schedule.name,
      object?.id,
      schedule.spec.job,
      JSON.stringify(schedule.spec),
      schedule.spec.suspend,
      schedule.nextFireAt,
      schedule.nextFireAt === null && schedule.spec.timing.kind === "every" && schedule.spec.timing.from === "finish",
      schedule.timingHash ?? "timing",
    ],
  );
}
