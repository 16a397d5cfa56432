// `node scripts/bench-schedules.mjs`: what a round of the scheduler costs with 1,000, 100,000 and a million schedules.
import "./check-node.mjs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { reportFailure, ROOT } from "./project.mjs";

const COUNTS = [1_000, 100_000, 1_000_000];
/** Beside dist, so that it finds the packages and the migrations. */
const BUNDLE = join(ROOT, "runtime", "adapters", "postgres", ".bench-schedules.mjs");

try {
  await build({
    entryPoints: [join(ROOT, "bench", "schedules.mjs")],
    outfile: BUNDLE,
    bundle: true,
    packages: "external",
    format: "esm",
    platform: "node",
    logLevel: "error",
  });
  const { measureSchedules } = await import(BUNDLE);
  const measured = await measureSchedules({ root: ROOT, counts: COUNTS });
  console.log("| schedules | a round with 100 due, median | largest |\n|---|---|---|");
  for (const { count, medianMs, largestMs } of measured) {
    console.log(`| ${count.toLocaleString("en")} | ${medianMs.toFixed(1)} ms | ${largestMs.toFixed(1)} ms |`);
  }
  const [fewest, ...more] = measured;
  for (const { count, medianMs } of more) {
    console.log(`\nratio of ${count.toLocaleString("en")}: ${(medianMs / fewest.medianMs).toFixed(2)}`);
  }
} catch (error) {
  reportFailure(error);
} finally {
  await rm(BUNDLE, { force: true });
}
