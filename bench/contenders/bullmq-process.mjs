import { createRequire } from "node:module";
import { join } from "node:path";
import { countedHandlers } from "./counted-handlers.mjs";

const { BENCH_PEERS, BENCH_OPTIONS } = process.env;
const { backend, connection, queue, concurrency } = JSON.parse(BENCH_OPTIONS);
const { Worker, createPostgresBackend } = createRequire(join(BENCH_PEERS, "package.json"))("bullmq");
const handlers = countedHandlers();
const worker = new Worker(
  queue,
  async (job) => handlers[job.name](),
  { connection, concurrency },
  ...(backend === "postgres" ? [createPostgresBackend] : []),
);
worker.on("error", (error) => console.error(error));
await worker.waitUntilReady();
process.once("SIGTERM", async () => {
  await worker.close();
  process.disconnect();
});
// A bench that was killed leaves nothing running.
process.once("disconnect", () => process.exit());
process.send({ kind: "ready" });
