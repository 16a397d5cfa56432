import { createHash } from "node:crypto";
import type { Database } from "../../runtime/adapters/postgres/pool.ts";

/** A UUIDv7-shaped id: `order` sorts, later is larger. */
export function testId(order: number): string {
  return `019ad2c4-${order.toString(16).padStart(4, "0")}-7c02-9f0a-6b0c1d3e5f70`;
}

type Values = Readonly<Record<string, unknown>>;

/** Inserts one row; a value written `sql:…` stands in the statement as it is. */
export async function insertRow(database: Pick<Database, "query">, table: string, values: Values): Promise<void> {
  const parameters: unknown[] = [];
  const places = Object.values(values).map((value) => {
    if (typeof value === "string" && value.startsWith("sql:")) return value.slice(4);
    parameters.push(value);
    return `$${parameters.length}`;
  });
  await database.query(
    `insert into turno.${table} (${Object.keys(values).join(", ")}) values (${places.join(", ")})`,
    parameters,
  );
}

/** A job in one of the live or final partitions; Enqueued unless said otherwise. */
export async function insertJob(database: Pick<Database, "query">, id: string, values: Values = {}): Promise<void> {
  const state = values.state ?? "Enqueued";
  const final = state === "Succeeded" || state === "Failed" || state === "Cancelled";
  await insertRow(database, "jobs", {
    id,
    type: "file.process",
    queue: "default",
    state,
    final,
    ...(final ? { expires_on: "sql:current_date + 7", finished_at: "sql:now()" } : {}),
    payload: '{"path":"in"}',
    dispatch_id: 884_213,
    sort_at: "sql:now()",
    run_at: "sql:now()",
    ...values,
  });
}

/** Puts a declared object with its revision in force; gives back its id. */
export async function declareObject(
  database: Pick<Database, "query">,
  object: {
    readonly kind: string;
    readonly name: string;
    readonly file: string;
    readonly line: number;
    readonly spec?: unknown;
  },
): Promise<string> {
  await database.query("insert into turno.sources (name, origin) values ('local', '/project') on conflict do nothing");
  await database.query(
    `insert into turno.revisions (source, number, content_hash, commit_id, author, committed_at, message, applied_by, changes)
     values ('local', 41, 'x', '3f2a91cbeef', 'ana', now() - interval '2 days', 'Close at 17:30 on weekdays', 'test', '[]')
     on conflict do nothing`,
  );
  const [row] = await database.query<{ id: string }>(
    `insert into turno.objects (source, kind, name, spec, spec_hash, file, line, introduced_in)
     values ('local', $1, $2, $3, 'x', $4, $5, 41) returning id`,
    [object.kind, object.name, JSON.stringify(object.spec ?? {}), object.file, object.line],
  );
  return row?.id ?? "";
}

/** Puts a job type in force, with the defaults of a plain job. */
export async function declareType(
  database: Pick<Database, "query">,
  name: string,
  options: { readonly queue?: string; readonly line?: number } = {},
) {
  const queue = options.queue ?? "default";
  const definition = JSON.stringify({
    type: name,
    handler: `${name.replace(".", "/")}.ts`,
    bundleHash: "sha256:9b1fc2",
    queue,
    timeoutMs: 600_000,
    isolation: "thread",
    settings: {},
    payloadSchema: null,
    policy: { retry: { maxAttempts: 5 }, timeoutMs: 600_000 },
  });
  const hash = createHash("sha256").update(definition).digest("hex");
  const objectId = await declareObject(database, {
    kind: "Job",
    name,
    file: "turno.d/jobs.yaml",
    line: options.line ?? 4,
    spec: { policy: "standard" },
  });
  await database.query("insert into turno.job_definitions (hash, definition) values ($1, $2) on conflict do nothing", [
    hash,
    definition,
  ]);
  await insertRow(database, "job_types", { name, object_id: objectId, definition_hash: hash, revision: 41, queue });
  return objectId;
}

/** Puts a schedule in force. */
export async function declareSchedule(
  database: Pick<Database, "query">,
  schedule: {
    readonly name: string;
    readonly job: string;
    readonly timing: unknown;
    readonly timeZone?: string;
    readonly next: string | null;
    readonly line?: number;
    readonly suspended?: boolean;
  },
): Promise<string> {
  const spec = {
    job: schedule.job,
    timing: schedule.timing,
    timeZone: schedule.timeZone ?? "America/Sao_Paulo",
    payload: {},
    concurrencyPolicy: "Forbid",
    misfirePolicy: "latest",
    runOnStart: false,
    suspend: schedule.suspended ?? false,
  };
  const objectId = await declareObject(database, {
    kind: "Schedule",
    name: schedule.name,
    file: "turno.d/payroll.yaml",
    line: schedule.line ?? 12,
    spec,
  });
  await insertRow(database, "recurring_jobs", {
    name: schedule.name,
    object_id: objectId,
    revision: 41,
    job_type: schedule.job,
    spec: JSON.stringify(spec),
    timing_hash: "t1",
    suspended: schedule.suspended ?? false,
    next_fire_at: schedule.next,
  });
  return objectId;
}

/** A worker with lanes for the three usual queues. */
export async function insertWorker(database: Pick<Database, "query">, id: string, values: Values = {}): Promise<void> {
  await insertRow(database, "workers", {
    id,
    name: "worker-7f3a",
    host: "node-a",
    pid: 4711,
    version: "0.1.0",
    queues: JSON.stringify([
      { name: "default", concurrency: 4 },
      { name: "critical", concurrency: 2 },
      { name: "reports", concurrency: 2 },
    ]),
    ...values,
  });
}
