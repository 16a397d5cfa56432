import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pollRemaining } from "../measure.mjs";
import { openPool } from "../postgres-pool.mjs";
import { expectHandled, readProbeStarts } from "./counted-handlers.mjs";
import { startWorkerProcess } from "./worker-process.mjs";

const BATCH = 1_000;
/** Its documentation's configuration for the highest throughput (worker.graphile.org/docs/performance). */
export const FASTEST = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

export async function openGraphileWorker({ url, peersDir }) {
  const { Logger, makeWorkerUtils } = createRequire(join(peersDir, "package.json"))("graphile-worker");
  const utils = await makeWorkerUtils({ connectionString: url, logger: new Logger(() => () => {}) });
  await utils.migrate();
  const pool = openPool(url);
  let handled = Promise.resolve();
  const left = async () => {
    const { rows } = await pool.query("select exists (select from graphile_worker._private_jobs) as some");
    return rows[0].some ? 1 : 0;
  };
  return {
    name: "graphile-worker",
    set: "local queue of 500, batched completion, 24 at once",
    startWorker: () =>
      startWorkerProcess({
        file: fileURLToPath(new URL("graphile-worker-process.mjs", import.meta.url)),
        env: { BENCH_PEERS: peersDir, BENCH_URL: url, BENCH_PRESET: JSON.stringify(FASTEST) },
      }),
    async hold(worker, count) {
      handled = expectHandled(worker, count);
      const client = await pool.connect();
      await client.query("begin");
      for (let from = 0; from < count; from += BATCH) {
        const specs = Array.from({ length: Math.min(BATCH, count - from) }, () => ({
          identifier: "noop",
          payload: {},
        }));
        await client.query(
          "select graphile_worker.add_jobs(array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))",
          [JSON.stringify(specs)],
        );
      }
      await client.query("analyze");
      return async () => {
        await client.query("commit");
        client.release();
      };
    },
    async drained() {
      await handled;
      await pollRemaining(left);
    },
    probe: () => utils.addJob("probe", {}),
    probeStarts: async (worker, count) => {
      await pollRemaining(left);
      return readProbeStarts(worker, count);
    },
    async verify() {
      if ((await left()) > 0) throw new Error("graphile-worker left jobs behind");
    },
    async close() {
      await utils.release();
      await pool.end();
    },
  };
}
