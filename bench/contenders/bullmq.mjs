import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pollRemaining } from "../measure.mjs";
import { openPool } from "../postgres-pool.mjs";
import { expectHandled, readProbeStarts } from "./counted-handlers.mjs";
import { startWorkerProcess } from "./worker-process.mjs";

const BATCH = 1_000;
const QUEUE = "bench";
const CONCURRENCY = { redis: 100, postgres: 32 };

/** BullMQ on one of its two backends; finished jobs are removed at once, which is its fastest. */
export async function openBullmq({ backend, connection, peersDir }) {
  const { Queue, createPostgresBackend } = createRequire(join(peersDir, "package.json"))("bullmq");
  const queue = new Queue(QUEUE, { connection }, ...(backend === "postgres" ? [createPostgresBackend] : []));
  await queue.waitUntilReady();
  const pool = backend === "postgres" ? openPool(connection.connectionString) : null;
  let handled = Promise.resolve();
  const left = async () => {
    const { active, waiting, paused } = await queue.getJobCounts("active", "waiting", "paused");
    return active + waiting + paused;
  };
  return {
    name: `bullmq-${backend}`,
    set: `${CONCURRENCY[backend]} at once, finished jobs removed at once`,
    startWorker: () =>
      startWorkerProcess({
        file: fileURLToPath(new URL("bullmq-process.mjs", import.meta.url)),
        env: {
          BENCH_PEERS: peersDir,
          BENCH_OPTIONS: JSON.stringify({ backend, connection, queue: QUEUE, concurrency: CONCURRENCY[backend] }),
        },
      }),
    async hold(worker, count) {
      handled = expectHandled(worker, count);
      await queue.pause();
      for (let from = 0; from < count; from += BATCH) {
        const length = Math.min(BATCH, count - from);
        await queue.addBulk(
          Array.from({ length }, () => ({ name: "noop", data: {}, opts: { removeOnComplete: true } })),
        );
      }
      await pool?.query("analyze");
      return () => queue.resume();
    },
    async drained() {
      await handled;
      await pollRemaining(left);
    },
    probe: () => queue.add("probe", {}, { removeOnComplete: true }),
    probeStarts: async (worker, count) => {
      await pollRemaining(left);
      return readProbeStarts(worker, count);
    },
    async verify() {
      const found = (await left()) + (await queue.getJobCountByTypes("failed", "delayed"));
      if (found > 0) throw new Error(`BullMQ on ${backend} left ${found} jobs behind`);
    },
    async close() {
      await queue.close();
      await pool?.end();
    },
  };
}
