// What a scheduler's round costs by the number of schedules: a hundred are due, the others are not.
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { startEmbeddedPostgres } from "../runtime/adapters/embedded/embedded-postgres.ts";
import { migrate } from "../runtime/adapters/postgres/migrate.ts";
import { openDatabase } from "../runtime/adapters/postgres/pool.ts";
import { createScheduleStore } from "../runtime/adapters/postgres/schedule-store.ts";
import { systemIds } from "../runtime/adapters/system/ids.ts";
import { silentLogger } from "../runtime/core/logger.ts";
import { decideDue } from "../runtime/time/due.ts";

const DUE = 100;
const ROUNDS = 30;
const SPEC = {
  job: "noop",
  timing: { kind: "cron", expression: "0 * * * *", timeZone: "UTC" },
  timeZone: "UTC",
  payload: {},
  concurrencyPolicy: "Allow",
  misfirePolicy: "latest",
  runOnStart: false,
  suspend: false,
};

/** Milliseconds of a round, the median, by the number of schedules that exist. */
export async function measureSchedules({ root, counts }) {
  await mkdir(join(root, ".turno"), { recursive: true });
  const folder = await mkdtemp(join(root, ".turno", "bench-schedules-"));
  const signal = new AbortController().signal;
  const server = await startEmbeddedPostgres({ dataDir: join(folder, "postgres"), durable: true, logger: silentLogger, signal });
  try {
    const measured = [];
    for (const count of counts) measured.push({ count, ...(await measureOne(server.address, count)) });
    return measured;
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function measureOne(address, count) {
  const admin = new pg.Client(address);
  await admin.connect();
  await admin.query(`create database schedules_${count}`);
  await admin.end();
  const url = new URL(address.connectionString);
  url.pathname = `/schedules_${count}`;
  const own = { ...address, connectionString: url.href };
  const client = new pg.Client(own);
  await client.connect();
  const database = openDatabase({ address: own, applicationName: "bench", size: 2, statementTimeoutMs: 60_000, logger: silentLogger });
  try {
    await migrate(own, silentLogger);
    await seed(client, count);
    const store = createScheduleStore(database, { ring: () => {} });
    const times = [];
    for (let round = 0; round < ROUNDS; round++) {
      await client.query(
        `update turno.recurring_jobs set next_fire_at = date_trunc('milliseconds', now() - interval '1 second') - id * interval '1 millisecond'
         from (select generate_series(1, $1) as id) as s where name = 's' || (s.id * $2)`,
        [DUE, Math.floor(count / DUE)],
      );
      const startMs = performance.now();
      await runRound(store);
      times.push(performance.now() - startMs);
    }
    const { rows } = await client.query("select count(*)::int as fires from turno.schedule_fires where outcome = 'fired'");
    if (rows[0].fires !== ROUNDS * DUE) throw new Error(`expected ${ROUNDS * DUE} fires, found ${rows[0].fires}`);
    times.sort((left, right) => left - right);
    return { medianMs: times[Math.floor(times.length / 2)], largestMs: times.at(-1) };
  } finally {
    await database.close();
    await client.end();
  }
}

/** What a leader does in a round, with the same statements. */
async function runRound(store) {
  await store.fireOnStart(systemIds.jobId);
  await store.wakeFinishedSchedules();
  for (;;) {
    const { now, schedules } = await store.loadDueSchedules(200);
    if (schedules.length === 0) break;
    const steps = schedules.map(({ name, spec, timingHash, nextFireAt }) => {
      const { fires, skips, nextFireAt: next } = decideDue({ timing: spec.timing, nextFireAt, misfirePolicy: "latest" }, now);
      return {
        name,
        expected: { nextFireAt, timingHash },
        fires: fires.map((at) => ({ at, jobId: systemIds.jobId() })),
        skips,
        olderSkips: 0,
        nextFireAt: next,
      };
    });
    await store.applySteps(steps);
  }
  await store.promoteDue(1_000);
  await store.settleOverlaps(1_000);
  await store.nextDueInMs();
}

async function seed(client, count) {
  const spec = JSON.stringify(SPEC);
  await client.query("insert into turno.sources (name, origin) values ('bench', 'bench')");
  await client.query("insert into turno.revisions (source, number, content_hash, applied_by, changes) values ('bench', 1, 'x', 'bench', '[]')");
  const { rows } = await client.query(
    "insert into turno.objects (source, kind, name, spec, spec_hash, file, line, introduced_in) values ('bench', 'Job', 'noop', '{}', 'x', 'x.yaml', 1, 1) returning id",
  );
  await client.query("insert into turno.job_definitions (hash, definition) values ('d', '{}')");
  await client.query("insert into turno.job_types (name, object_id, definition_hash, revision, queue) values ('noop', $1, 'd', 1, 'default')", [rows[0].id]);
  await client.query(
    `insert into turno.recurring_jobs (name, object_id, revision, job_type, spec, timing_hash, next_fire_at)
     select 's' || n, $1, 1, 'noop', $2::jsonb, 't', now() + interval '1 day' + n * interval '1 second' from generate_series(1, $3::int) as n`,
    [rows[0].id, spec, count],
  );
  await client.query("vacuum analyze");
}
