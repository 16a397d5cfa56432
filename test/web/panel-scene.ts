import type { Database } from "../../runtime/adapters/postgres/pool.ts";
import { declareSchedule, declareType, insertJob, insertRow, insertWorker, testId } from "./seed.ts";

const WORKERS = [
  "7f3a0000-1111-4111-8111-111111111111",
  "91c00000-1111-4111-8111-111111111111",
  "d2e80000-1111-4111-8111-111111111111",
] as const;

/** The job that the scene's page of one job shows. */
export const FAILED_JOB = testId(0x7b1e);
export const RUNNING_JOB = testId(0x7c00);

type Run = readonly [worker: number, type: string, queue: string, elapsed: string, progress: number];
const RUNS: readonly Run[] = [
  [0, "boletos.gerar", "default", "2 minutes 14 seconds", 62],
  [0, "file.process", "default", "18 seconds", 35],
  [0, "integration.sync", "default", "62 seconds", 0],
  [0, "payroll.close", "critical", "41 seconds", 88],
  [0, "report.generate", "reports", "4 minutes 20 seconds", 47],
  [1, "integration.sync", "default", "9 seconds", 0],
  [1, "file.process", "default", "6 seconds", 12],
  [1, "notification.send", "default", "0.4 seconds", 0],
  [1, "file.process", "default", "51 seconds", 71],
  [1, "payroll.close", "critical", "12 seconds", 24],
  [1, "ledger.unlock.after.the.books.were.closed", "critical", "2 seconds", 0],
  [1, "report.generate", "reports", "9 minutes 40 seconds", 93],
  [2, "boletos.gerar", "default", "3 minutes 30 seconds", 91],
  [2, "report.generate", "reports", "75 seconds", 20],
];

/** An installation at work: three workers, a busy hour behind it, one failed job with its story. */
export async function buildScene(database: Database): Promise<void> {
  const types = [
    "boletos.gerar",
    "file.process",
    "integration.sync",
    "payroll.close",
    "notification.send",
    "ledger.unlock.after.the.books.were.closed",
  ];
  for (const [index, type] of types.entries()) await declareType(database, type, { line: 4 + index * 9 });
  await declareType(database, "report.generate", { queue: "reports", line: 70 });
  await insertRow(database, "queues", { name: "reports", concurrency: 4 });
  await insertWorkers(database);
  for (const [index, [worker, type, queue, elapsed, progress]] of RUNS.entries()) {
    await insertJob(database, testId(0x7c00 + index), {
      type,
      queue,
      state: "Processing",
      worker_id: WORKERS[worker],
      progress,
      execution: 1,
      created_at: `sql:now() - interval '${elapsed}'`,
      claimed_at: `sql:now() - interval '${elapsed}'`,
      started_at: `sql:now() - interval '${elapsed}'`,
    });
  }
  for (let order = 0; order < 12; order += 1)
    await insertJob(database, testId(0x7d00 + order), { type: types[order % 5] });
  await insertJob(database, testId(0x7e00), { type: "backup.verify", state: "Scheduled", hold: "no-handler" });
  await insertFigures(database);
  await insertFailedJob(database);
  await insertSchedules(database);
}

async function insertWorkers(database: Database): Promise<void> {
  const facts = [
    { name: "worker-7f3a", host: "node-a", registered_at: "sql:now() - interval '3 days 4 hours'" },
    {
      name: "worker-91c0",
      host: "node-b",
      registered_at: "sql:now() - interval '3 days 4 hours' + interval '1 second'",
    },
    { name: "worker-d2e8", host: "node-c", registered_at: "sql:now() - interval '2 hours'", draining: true },
  ];
  // A test's time does not make them silent.
  for (const [index, values] of facts.entries()) {
    await insertWorker(database, WORKERS[index] ?? "", { ...values, heartbeat_at: "sql:now() + interval '1 hour'" });
  }
  for (const [index, duty] of ["scheduling", "recovery", "cleanup"].entries()) {
    await insertRow(database, "duties", {
      duty,
      worker_id: WORKERS[index % 2],
      expires_at: "sql:now() + interval '1 hour'",
    });
  }
}

async function insertFigures(database: Database): Promise<void> {
  await insertRow(database, "queue_counts", { queue: "default", scheduled: 81, enqueued: 1180, processing: 9 });
  await insertRow(database, "queue_counts", { queue: "critical", scheduled: 0, enqueued: 3, processing: 3 });
  await insertRow(database, "queue_counts", { queue: "reports", scheduled: 5, enqueued: 21, processing: 3 });
  await database.query(
    `insert into turno.minute_statistics (minute, queue, succeeded, failed, executions, failures, ran_ms)
     select date_trunc('minute', now()) - n * interval '1 minute', 'default', ok, bad, ok + bad, bad, (ok + bad) * 1800
     from generate_series(0, 59) n
     cross join lateral (select (34 + 14 * sin(n / 9.0) + 6 * sin(n * 1.7))::int as ok, case when n % 11 = 3 then 2 + n % 4 else 0 end as bad) m`,
  );
  await insertRow(database, "minute_statistics", {
    minute: "sql:date_trunc('minute', now()) - interval '9 hours'",
    queue: "default",
    succeeded: 46_400,
    failed: 31,
    executions: 46_431,
    failures: 31,
    ran_ms: 83_000_000,
  });
  for (const type of ["integration.sync", "integration.sync", "boletos.gerar"]) {
    await insertRow(database, "dead_letters", {
      job_id: FAILED_JOB,
      type,
      queue: "default",
      attempts: 5,
      reason: "failed",
      created_at: "sql:now() - interval '12 minutes'",
      expires_on: "sql:current_date + 30",
    });
  }
}

async function insertFailedJob(database: Database): Promise<void> {
  const objectId = await declareSchedule(database, {
    name: "fechamento-diario",
    job: "boletos.gerar",
    timing: { kind: "cron", expression: "30 2 * * *", timeZone: "America/Sao_Paulo" },
    next: "sql:now() + interval '7 hours 48 minutes'",
  });
  const at = (minutes: number) => `sql:now() - interval '${minutes} minutes'`;
  await insertJob(database, FAILED_JOB, {
    type: "boletos.gerar",
    state: "Failed",
    object_id: objectId,
    schedule: "fechamento-diario",
    fire_at: at(50),
    fire_late_ms: 40,
    failures: 3,
    lost: 1,
    execution: 4,
    payload: '{"lote":7,"competencia":"2026-10"}',
    error: "502 from https://api.example.com/v1/slips after 3 immediate tries",
    worker_id: WORKERS[1],
    created_at: at(50),
    started_at: at(12),
    finished_at: at(12),
    enqueued_at: at(50),
    enqueued_why: "created",
  });
  const history = { job_id: FAILED_JOB, final: true, expires_on: "sql:current_date + 7" };
  const stack =
    "HttpError: 502 from https://api.example.com/v1/slips after 3 immediate tries\n    at fetchSlips (handlers/boletos/gerar.ts:41:11)\n    at run (handlers/boletos/gerar.ts:18:24)";
  const attempts = [
    ["timed-out", 50, 40, "timed out after 10 m"],
    ["lost", 38, 37, null],
    ["failed", 30, 29.9, "502 from https://api.example.com/v1/slips after 3 immediate tries"],
    ["failed", 12.1, 12, "502 from https://api.example.com/v1/slips after 3 immediate tries"],
  ] as const;
  for (const [index, [outcome, start, end, error]] of attempts.entries()) {
    await insertRow(database, "job_attempts", {
      ...history,
      dispatch_id: 884_210 + index,
      worker_id: WORKERS[index % 2],
      execution: index + 1,
      outcome,
      started_at: at(start),
      finished_at: at(end),
      error,
      stack: error === null ? null : stack,
      bundle_hash: "sha256:9b1f4ac2d0e87711b0c2",
      revision: 41,
    });
  }
  const changes = [
    [50, "Enqueued", "Processing", "claimed"],
    [40, "Processing", "Scheduled", "retry"],
    [38.5, "Scheduled", "Enqueued", "due"],
    [38, "Enqueued", "Processing", "claimed"],
    [37, "Processing", "Enqueued", "worker lost"],
    [12.1, "Enqueued", "Processing", "claimed"],
    [12, "Processing", "Failed", "failed"],
  ] as const;
  for (const [minutes, from, to, reason] of changes) {
    await insertRow(database, "job_state_changes", {
      ...history,
      at: at(minutes),
      from_state: from,
      to_state: to,
      reason,
    });
  }
}

async function insertSchedules(database: Database): Promise<void> {
  const cron = (expression: string, timeZone = "America/Sao_Paulo") => ({ kind: "cron", expression, timeZone });
  const others = [
    {
      name: "payroll.close",
      job: "payroll.close",
      timing: cron("0 20 18 * * 1-5"),
      next: "sql:now() + interval '41 seconds'",
      line: 40,
    },
    {
      name: "integration.sync",
      job: "integration.sync",
      timing: { kind: "every", intervalMs: 20_000, from: "epoch" },
      next: "sql:now() + interval '11 seconds'",
      line: 4,
    },
    {
      name: "report.hourly",
      job: "report.generate",
      timing: cron("30 * * * *", "Europe/Lisbon"),
      timeZone: "Europe/Lisbon",
      next: "sql:now() + interval '10 minutes'",
      line: 21,
    },
    {
      name: "backup.nightly",
      job: "file.process",
      timing: cron("0 3 * * *", "UTC"),
      timeZone: "UTC",
      next: "sql:now() + interval '9 hours'",
      line: 3,
      suspended: true,
    },
    { name: "leap.day", job: "file.process", timing: cron("0 0 30 2 *", "UTC"), timeZone: "UTC", next: null, line: 30 },
  ];
  for (const schedule of others) await declareSchedule(database, schedule);
  const done = [testId(0x10), testId(0x11)];
  await insertJob(database, done[0] ?? "", { state: "Succeeded", type: "integration.sync", execution: 1 });
  await insertJob(database, done[1] ?? "", { state: "Failed", type: "integration.sync", execution: 1 });
  for (const [position, name] of [
    "fechamento-diario",
    "payroll.close",
    "integration.sync",
    "report.hourly",
  ].entries()) {
    await database.query(
      `insert into turno.schedule_fires (schedule, fire_at, outcome, job_id, late_ms)
       select $1, now() - n * interval '1 hour',
         case when (n * 7 + $2::int) % 13 = 0 then 'overlapped' else 'fired' end,
         case when (n * 7 + $2::int) % 13 = 0 then null when (n + $2::int) % 9 = 0 then $4::uuid else $3::uuid end,
         case when n = 5 then 120000 else 40 end
       from generate_series(1, 26) n`,
      [name, position, ...done],
    );
  }
}
