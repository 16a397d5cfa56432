// npm test: sets up what is missing, then lint, types and tests; the last line counts them together.
import "./check-node.mjs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { installPackages } = await import("./install.mjs");
const { buildDist } = await import("./build-dist.mjs");
const { provideChromium } = await import("./chromium.mjs");
const { provideTestServices } = await import("./test-services.mjs");
const { packageProgram, reportFailure, requireWritable, run } = await import("./project.mjs");

const total = { passed: 0, failed: 0, skipped: 0 };
const folder = await mkdtemp(join(tmpdir(), "turno-results-"));
try {
  await requireWritable("npm test");
  await installPackages();
  await buildDist();
  const chromium = await provideChromium();
  await provideTestServices();
  await check("Lint and format", ["@biomejs/biome/bin/biome", "check", "."]);
  await check("Types", ["typescript/bin/tsc", "-p", "tsconfig.json", "--noEmit"]);
  await runTests(chromium);
} catch (error) {
  total.failed += 1;
  reportFailure(error);
} finally {
  await rm(folder, { recursive: true, force: true });
}
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = total.failed === 0 ? 0 : 1;

async function check(title, [program, ...args]) {
  console.log(`${title} ...`);
  const code = await run(process.execPath, [packageProgram(program), ...args]);
  if (code === 0) total.passed += 1;
  else total.failed += 1;
}

async function runTests(chromium) {
  console.log("Tests ...");
  const results = join(folder, "results.json");
  const args = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${results}`, ...process.argv.slice(2)];
  const env = { ...process.env, ...(chromium === null ? {} : { TURNO_CHROMIUM: chromium }) };
  const code = await run(process.execPath, [packageProgram("vitest/vitest.mjs"), ...args], { env });
  const report = await readFile(results, "utf8").then(JSON.parse, () => null);
  const counted = report === null ? { passed: 0, failed: 0, skipped: 0 } : countTests(report);
  // Vitest fails without a failed test after an unhandled error or a broken set-up.
  if (code !== 0 && counted.failed === 0) counted.failed = 1;
  for (const key of Object.keys(total)) total[key] += counted[key];
}

/** A file that could not be loaded has no tests, and counts as one that failed. */
function countTests(report) {
  const unloaded = report.testResults.filter(({ status, assertionResults }) => status === "failed" && assertionResults.length === 0);
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + unloaded.length,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}
