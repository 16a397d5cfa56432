import { cp, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createJobStore } from "../../dist/runtime/adapters/postgres/job-store.js";
import { systemIds } from "../../dist/runtime/adapters/system/ids.js";
import { openStores } from "../../dist/runtime/compose.js";
import { silentLogger } from "../../dist/runtime/core/logger.js";
import { capture, ROOT } from "../../scripts/project.mjs";
import { pollRemaining } from "../measure.mjs";
import { startWorkerProcess } from "./worker-process.mjs";

const BATCH = 1_000;
const SLOTS = 24;
const PROGRAM = join(ROOT, "bin", "turno.js");
/** Written by the statement that finishes jobs, and a few hundred rows at most. */
const SUCCEEDED = `
select ((select coalesce(sum(succeeded), 0) from turno.counter_deltas) + (select coalesce(sum(succeeded), 0) from turno.minute_statistics))::int as succeeded`;
const PROBES = `
select result #>> '{}' as started from turno.jobs_final where type = 'probe' and state = 'Succeeded' order by id desc limit $1`;
const CHECK = `
select count(*) filter (where state = 'Succeeded')::int as succeeded, count(*)::int as finished,
  (select count(*) from turno.jobs_live)::int as live,
  (select count(*) from turno.job_executions
   where outcome = 'succeeded' and finished_at >= started_at and worker_id is not null and bundle_hash is not null and revision is not null)::int as attempts,
  (select count(*) from turno.job_timeline)::int as changes
from turno.jobs_final`;

/** Turno with everything on: one `turno worker` that leads all duties, handlers in threads, attempts and timeline written. */
export async function openTurno({ url, folder }) {
  return openTurnoOn({ name: "turno", set: `${SLOTS} slots, handlers in threads`, url, folder, transport: "postgres" });
}

/** The same on RabbitMQ, with a Redlock lock a job. */
export async function openTurnoOnRabbit({ url, folder, brokers }) {
  const servers = await brokers();
  const env = {
    TURNO_RUNTIME_BROKER_TRANSPORT: "rabbitmq",
    TURNO_RABBITMQ_URL: servers.rabbitUrl,
    TURNO_RUNTIME_LOCKS_DRIVER: "redlock",
    TURNO_RUNTIME_LOCKS_REDLOCK_URLS_0: servers.redisUrl,
  };
  const set = `${SLOTS} slots, handlers in threads, a quorum queue, a lock a job on one Redis`;
  return openTurnoOn({ name: "turno-rabbitmq", set, url, folder, transport: "rabbitmq", more: env });
}

async function openTurnoOn({ name, set, url, folder, transport, more = {} }) {
  const project = join(folder, `project-${name}`);
  await mkdir(project, { recursive: true });
  await cp(fileURLToPath(new URL("../project", import.meta.url)), project, { recursive: true });
  const env = { TURNO_DATABASE_URL: url, ...more };
  await turno(["migrate", "--dir", project], env);
  await turno(["apply", "--yes", "--dir", project], env);
  const stores = openStores({ address: { connectionString: url }, role: "bench", poolSize: 4, logger: silentLogger });
  await stores.outbox.setTransport(transport);
  let inserted = 0;
  const unfinished = async () => {
    const [{ succeeded }] = await stores.database.query(SUCCEEDED);
    return inserted - succeeded;
  };
  return {
    name,
    set,
    startWorker: () =>
      startWorkerProcess({
        file: PROGRAM,
        args: ["worker", "--dir", project, "--queue", `default=${SLOTS}`],
        env: { ...env, TURNO_LOG_LEVEL: "warn" },
        execArgv: process.env.BENCH_TURNO_NODE?.split(" ") ?? [],
      }),
    async hold(_worker, count) {
      let commit;
      let committed;
      await new Promise((resolve, reject) => {
        committed = stores.database.transaction(async (query) => {
          const jobs = createJobStore({ prepared: query }, { ring() {} });
          for (let from = 0; from < count; from += BATCH) {
            await jobs.insertJobs(Array.from({ length: Math.min(BATCH, count - from) }, () => newJob("noop")));
          }
          await query("analyze");
          await new Promise((release) => {
            commit = release;
            resolve();
          });
        });
        committed.catch(reject);
      });
      inserted += count;
      return async () => {
        commit();
        await committed;
        stores.doorbell.ring({ kind: "queue", queue: "default" });
      };
    },
    drained: () => pollRemaining(unfinished),
    probe() {
      inserted += 1;
      return stores.jobs.insertJobs([newJob("probe")]);
    },
    async probeStarts(_worker, count) {
      await pollRemaining(unfinished);
      const rows = await stores.database.query(PROBES, [count]);
      return rows.map(({ started }) => BigInt(started)).reverse();
    },
    /** Nothing left, nothing failed, and for every job one attempt and the two moves of its timeline. */
    async verify() {
      const [found] = await stores.database.query(CHECK);
      const wanted = { succeeded: inserted, finished: inserted, live: 0, attempts: inserted, changes: 2 * inserted };
      for (const [name, count] of Object.entries(wanted)) {
        if (found[name] !== count) throw new Error(`Turno: expected ${name} to be ${count}, found ${found[name]}`);
      }
    },
    close: () => stores.close(),
  };
}

function newJob(type) {
  return {
    id: systemIds.jobId(),
    type,
    queue: null,
    payload: {},
    priority: 0,
    due: null,
    maxAttempts: null,
    timeoutMs: null,
  };
}

async function turno(args, env) {
  const { code, output } = await capture(process.execPath, [PROGRAM, ...args], { env: { ...process.env, ...env } });
  if (code !== 0) throw new Error(`turno ${args.join(" ")} failed with exit code ${code}:\n${output}`);
}
