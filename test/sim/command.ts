import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { drawPlan } from "./draw-plan.ts";
import { INVARIANTS } from "./invariants.ts";
import { SITUATIONS } from "./reach.ts";
import { runPlan, runSeed, type SeedResult } from "./run-seed.ts";
import { addSummary, emptySummary, runSeeds, type Summary, unreached } from "./run-seeds.ts";
import { showPlan, showTrace } from "./show.ts";
import { shrinkPlan } from "./shrink.ts";

const USAGE = `npm run sim -- [options]
  --seeds N     how many seeds (default 500)
  --from K      the first of them (default 1)
  --jobs N      processes (default: one a core)
  --keep-going  go on after a violation
  --seed N      one seed, with what happened when it fails
  --only a,b    of that seed: only these faults and this work (by their ids)
  --trace       of that seed: everything that happened, also when nothing is wrong
  --json        the summary as one JSON object on stdout`;
/** Seeds that one message to a process asks for. */
const PORTION = 25;
/** With fewer seeds than this a situation that was not met says nothing. */
const ENOUGH_FOR_REACH = 2_000;

/** The whole command; the exit code: 0 all well, 1 a violation or a situation never met, 2 wrong use, 130 interrupted. */
export async function runCommand(args: readonly string[], at: { readonly program: string }): Promise<number> {
  let options: ReturnType<typeof readOptions>;
  try {
    options = readOptions(args);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n\n${USAGE}\n`);
    return 2;
  }
  if (options.help) {
    process.stdout.write(`${USAGE}\n`);
    return 0;
  }
  if (options.seed !== null) return runOne(options.seed, options);
  return runMany(options, at.program);
}

function readOptions(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seeds: { type: "string" },
      from: { type: "string" },
      jobs: { type: "string" },
      seed: { type: "string" },
      only: { type: "string" },
      "keep-going": { type: "boolean", default: false },
      trace: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const number = (name: "seeds" | "from" | "jobs" | "seed", least: number): number | null => {
    const text = values[name];
    if (text === undefined) return null;
    const value = Number(text);
    if (!Number.isSafeInteger(value) || value < least)
      throw new Error(`--${name}: expected a whole number from ${least} on, found "${text}"`);
    return value;
  };
  return {
    seeds: number("seeds", 1) ?? 500,
    from: number("from", 0) ?? 1,
    jobs: number("jobs", 1) ?? availableParallelism(),
    seed: number("seed", 0),
    only: values.only === undefined ? null : new Set(values.only.split(",").filter((id) => id !== "")),
    keepGoing: values["keep-going"],
    trace: values.trace,
    json: values.json,
    help: values.help,
  };
}

async function runOne(
  seed: number,
  { only, trace }: { readonly only: ReadonlySet<string> | null; readonly trace: boolean },
): Promise<number> {
  const plan = drawPlan(seed);
  const first = await runPlan(plan, { ...(only === null ? {} : { only }), keepTrace: true });
  if (first.violation === null) {
    if (trace) process.stdout.write(showTrace(first, { last: Number.POSITIVE_INFINITY }));
    process.stdout.write(
      `seed ${seed}: no violation, ${first.events} events, ${seconds(first.simulatedMs)} simulated, trace ${first.hash}\n`,
    );
    return 0;
  }
  if (only !== null) {
    tellViolation(first);
    process.stdout.write(showPlan(plan, only));
    process.stdout.write(showTrace(first, { last: trace ? Number.POSITIVE_INFINITY : 60 }));
    return 1;
  }
  await tellShrunk(first);
  return 1;
}

function tellViolation({ seed, violation }: Pick<SeedResult, "seed" | "violation">): void {
  if (violation === null) return;
  const { invariant, message, atMs } = violation;
  process.stdout.write(`seed ${seed}, after ${seconds(atMs)}: ${invariant} violated: ${message}\n`);
  process.stdout.write(`  ${invariant}: ${INVARIANTS[invariant]}\n`);
}

/** Makes the failing world as small as it gets, and shows it. */
async function tellShrunk(failed: Pick<SeedResult, "seed" | "violation">): Promise<void> {
  tellViolation(failed);
  process.stdout.write(`  reproduce: npm run sim -- --seed ${failed.seed}\n`);
  const plan = drawPlan(failed.seed);
  const kept = await shrinkPlan(plan, failed.violation);
  const small = await runPlan(plan, { only: kept, keepTrace: true });
  process.stdout.write(
    `  smaller:   npm run sim -- --seed ${failed.seed} --only ${[...kept].join(",")}\n\nWhat is needed for it, of ${plan.work.length} wishes and ${plan.faults.length} faults:\n`,
  );
  process.stdout.write(showPlan(plan, kept));
  process.stdout.write("\nThe last things that happened:\n");
  process.stdout.write(showTrace(small, { last: 40 }));
}

interface ManyOptions {
  readonly seeds: number;
  readonly from: number;
  readonly jobs: number;
  readonly keepGoing: boolean;
  readonly json: boolean;
}

async function runMany(options: ManyOptions, program: string): Promise<number> {
  const { seeds, from, jobs, keepGoing, json } = options;
  const stopping = new AbortController();
  const interrupt = (): void => stopping.abort("interrupted");
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  const total = emptySummary();
  const startedMs = performance.now();
  let toldMs = startedMs;
  const tell = (): void => {
    toldMs = performance.now();
    const elapsed = (toldMs - startedMs) / 1000;
    process.stderr.write(
      `${total.seeds} of ${seeds} seeds, ${(total.seeds / elapsed).toFixed(0)} a second, ${total.violations.length} violations\n`,
    );
  };
  const onPart = (part: Summary): void => {
    addSummary(total, part);
    for (const { seed, violation } of part.violations)
      process.stderr.write(`seed ${seed}: ${violation?.invariant} violated: ${violation?.message}\n`);
    if (performance.now() - toldMs > 5_000) tell();
    if (total.violations.length > 0 && !keepGoing) stopping.abort("violation");
  };
  const portions = function* (): Generator<{ readonly from: number; readonly count: number }> {
    for (let seed = from; seed < from + seeds && !stopping.signal.aborted; seed += PORTION)
      yield { from: seed, count: Math.min(PORTION, from + seeds - seed) };
  };
  const work = portions();
  if (jobs === 1) for (const portion of work) onPart(await runSeeds({ ...portion, signal: stopping.signal }));
  else
    await Promise.all(Array.from({ length: jobs }, () => runChild({ program, work, onPart, signal: stopping.signal })));
  process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
  tell();

  const missing = total.seeds >= ENOUGH_FOR_REACH ? unreached(total.reach) : [];
  if (json) process.stdout.write(`${JSON.stringify({ ...total, seconds: (performance.now() - startedMs) / 1000 })}\n`);
  else tellSummary(total, (performance.now() - startedMs) / 1000);
  const [failed] = [...total.violations].sort((left, right) => left.seed - right.seed);
  if (failed !== undefined && !json) {
    process.stdout.write("\n");
    for (const other of total.violations) if (other !== failed) tellViolation(other);
    await tellShrunk(failed);
  }
  for (const situation of missing) process.stdout.write(`never met: ${situation}\n`);
  if (total.violations.length + missing.length > 0) return 1;
  return stopping.signal.reason === "interrupted" ? 130 : 0;
}

function tellSummary(total: Summary, elapsed: number): void {
  const lines = [
    `${total.seeds} seeds (${(total.seeds / elapsed).toFixed(1)} a second), ${(total.simulatedMs / 3_600_000).toFixed(1)} simulated hours, ${total.events} events, ${total.jobs} jobs, ${total.violations.length} violations`,
    "",
    "Faults by kind:",
    ...Object.entries(total.faults)
      .sort(([left], [right]) => left.localeCompare(right))
      .map(([kind, count]) => `  ${String(count).padStart(9)}  ${kind}`),
    "",
    "Situations met:",
    ...SITUATIONS.map((situation) => `  ${String(total.reach[situation]).padStart(9)}  ${situation}`),
  ];
  process.stdout.write(`${lines.join("\n")}\n`);
}

interface Shared {
  readonly program: string;
  readonly work: Iterator<{ readonly from: number; readonly count: number }>;
  readonly onPart: (part: Summary) => void;
  readonly signal: AbortSignal;
}

/** One more process, which takes portions until there are none. */
function runChild({ program, work, onPart, signal }: Shared): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = fork(program, [], {
      execArgv: ["--enable-source-maps"],
      env: { ...process.env, TURNO_SIM_CHILD: "1" },
    });
    const next = (): void => {
      const portion = work.next();
      if (portion.done === true || signal.aborted) child.disconnect();
      else child.send(portion.value);
    };
    child.once("error", reject);
    child.once("exit", (code) => {
      // After Ctrl-C the whole group of processes has been told.
      if (code === 0 || signal.aborted) resolve();
      else reject(new Error(`a process of the simulation ended with code ${code}`));
    });
    child.on("message", (part) => {
      onPart(part as Summary);
      next();
    });
    next();
  });
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

if (process.env.TURNO_SIM_CHILD === "1") {
  process.on("SIGINT", () => {});
  process.on("message", (portion: { readonly from: number; readonly count: number }) => {
    void runSeeds(portion).then((part) => {
      if (process.connected) process.send?.(part);
    });
  });
}

export { runSeed, runSeeds };
