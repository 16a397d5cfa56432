import { createRequire } from "node:module";
import { join } from "node:path";
import { countedHandlers } from "./counted-handlers.mjs";

const { BENCH_PEERS, BENCH_URL, BENCH_PRESET } = process.env;
const { Logger, run } = createRequire(join(BENCH_PEERS, "package.json"))("graphile-worker");
const handlers = countedHandlers();
const runner = await run({
  // Its log of every job would be what is measured.
  logger: new Logger(() => () => {}),
  taskList: { noop: () => handlers.noop(), probe: () => handlers.probe() },
  preset: { worker: { connectionString: BENCH_URL, ...JSON.parse(BENCH_PRESET) } },
});
// A bench that was killed leaves nothing running.
process.once("disconnect", () => process.exit());
process.send({ kind: "ready" });
await runner.promise;
process.disconnect();
