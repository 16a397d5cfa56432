// `npm run cluster`: the tests of several workers on PostgreSQL, RabbitMQ and three Redis nodes. Option: --jobs N, 60 by default.
import "./check-node.mjs";
import { parseArgs } from "node:util";

const { installPackages } = await import("./install.mjs");
const { buildDist } = await import("./build-dist.mjs");
const { packageProgram, reportFailure, run, SetupError } = await import("./project.mjs");

try {
  const { values } = parseArgs({ options: { jobs: { type: "string", default: "60" } } });
  if (!/^[1-9]\d{0,5}$/.test(values.jobs)) {
    throw new SetupError(`expected --jobs to be a whole number above zero, found "${values.jobs}"`);
  }
  await installPackages();
  await buildDist();
  const env = { ...process.env, TURNO_CLUSTER_JOBS: values.jobs };
  process.exitCode = await run(process.execPath, [packageProgram("vitest/vitest.mjs"), "run", "test/cluster"], { env });
} catch (error) {
  reportFailure(error);
}
