// npm run check:mutants: each bug of test/mutants/mutants.ts in a copy of its own, and what sees it. Options: --only TEXT, --level LEVEL, --write.
import "./check-node.mjs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { installPackages } = await import("./install.mjs");
const { packageProgram, reportFailure, ROOT, SetupError } = await import("./project.mjs");

const EVIDENCE = join(ROOT, "docs", "evidence.md");
const BUNDLED = { worlds: "test/mutants/kill-by-worlds.ts", simulation: "test/mutants/kill-by-simulation.ts" };
const PLACES = { worlds: "small worlds", simulation: "simulation", memory: "tests in memory", postgres: "tests on PostgreSQL" };
const LONGEST_MS = 600_000;

try {
  const options = readOptions();
  await installPackages();
  await checkMutants(options);
} catch (error) {
  reportFailure(error);
}

function readOptions() {
  const { values } = parseArgs({
    options: { only: { type: "string" }, level: { type: "string" }, write: { type: "boolean", default: false } },
  });
  if (values.level !== undefined && !(values.level in PLACES))
    throw new SetupError(`expected --level to be one of ${Object.keys(PLACES).join(", ")}, found "${values.level}"`);
  return values;
}

async function checkMutants({ only, level, write }) {
  const { bundleCopy } = await import("./mutant-copies.mjs");
  const { MUTANTS, mutate, writeTable } = await load("test/mutants/main.ts", bundleCopy);
  const chosen = MUTANTS.filter((one) => (only === undefined || one.name.includes(only)) && (level === undefined || one.level === level));
  if (chosen.length === 0) throw new SetupError(`expected --only to be part of a mutant's name, found "${only}"`);
  for (const mutant of chosen) mutate(mutant, await readFile(join(ROOT, mutant.file), "utf8"));

  const killed = new Map();
  console.log("| mutant | killed by | after | seconds |\n|---|---|---|---|");
  for (const mutant of chosen) {
    const startMs = performance.now();
    const verdict = mutant.level in BUNDLED ? await killByBundle(mutant, { bundleCopy, mutate }) : await killByTests(mutant);
    const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
    if (verdict !== null) killed.set(mutant.name, { ...verdict, place: PLACES[mutant.level] });
    console.log(`| ${mutant.name} | ${verdict === null ? "NOBODY" : `${PLACES[mutant.level]}: ${verdict.by}`} | ${verdict?.effort ?? ""} | ${seconds} |`);
  }
  console.log(`\n${killed.size} of ${chosen.length} mutants killed`);
  if (killed.size < chosen.length) process.exitCode = 1;
  if (write) await writeFile(EVIDENCE, writeTable(await readFile(EVIDENCE, "utf8"), killed));
}

/** A copy of the worlds or the simulation with the bug in. A seed that fails without it too shows nothing, and the next ones are asked. */
async function killByBundle(mutant, { bundleCopy, mutate }) {
  const entry = BUNDLED[mutant.level];
  const change = (path, text) => (path === mutant.file ? mutate(mutant, text) : null);
  for (let from = 1; ; ) {
    const verdict = await runBundle(await bundleCopy(entry, change), mutant.level === "simulation" ? [String(from)] : []);
    if (verdict?.seed === undefined) return verdict;
    const sound = await runBundle(await bundleCopy(entry), [String(verdict.seed), String(verdict.seed)]);
    if (sound === null) return verdict;
    console.error(`seed ${verdict.seed} of the simulation fails without any mutant too and is not counted: ${sound.by}`);
    from = verdict.seed + 1;
  }
}

async function runBundle(bundle, args) {
  try {
    const { output } = await runProgram([bundle, ...args], process.env);
    const line = output.trim().split("\n").at(-1);
    // A copy that ends without a word has been seen, too: by whatever ended it.
    return line?.startsWith("{") || line === "null" ? JSON.parse(line) : { by: `it breaks: ${(line ?? "").slice(0, 120)}`, effort: "1 start" };
  } finally {
    await rm(bundle, { force: true });
  }
}

/** The project's own tests over a copy. Killed: a test fails that names what it expected. */
async function killByTests(mutant) {
  const folder = await mkdtemp(join(tmpdir(), "turno-mutant-"));
  const results = join(folder, "results.json");
  try {
    const { files, names } = mutant.tests;
    const args = [packageProgram("vitest/vitest.mjs"), "run", "--config", "test/mutants/vitest.config.ts", "--reporter=json", `--outputFile=${results}`];
    const { output } = await runProgram([...args, "--bail", "1", ...(names === undefined ? [] : ["-t", names]), ...files], {
      ...process.env,
      TURNO_MUTANT: mutant.name,
    });
    const report = await readFile(results, "utf8").then(JSON.parse, () => null);
    if (report === null) throw new SetupError(`the tests of the mutant "${mutant.name}" did not run:\n${output.trimEnd()}`);
    const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults);
    const ran = tests.filter(({ status }) => status === "passed" || status === "failed");
    if (ran.length === 0) throw new SetupError(`no test that the mutant "${mutant.name}" names was run:\n${output.trimEnd()}`);
    const failed = ran.find(({ status }) => status === "failed");
    return failed === undefined ? null : { by: failed.title, effort: `${ran.length} test${ran.length === 1 ? "" : "s"}` };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function runProgram(args, env) {
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"], timeout: LONGEST_MS });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));
  const [code] = await once(child, "close");
  return { code, output };
}

async function load(entry, bundleCopy) {
  const bundle = await bundleCopy(entry);
  try {
    return await import(bundle);
  } finally {
    await rm(bundle, { force: true });
  }
}
