import { runSeed } from "../sim/main.ts";

const MOST_SEEDS = 2_000;
const LONGEST_MS = 480_000;

/**
 * Prints how the simulation saw what is wrong in this copy, as one line of JSON; `null` when no seed did. Arguments: the
 * first seed and the last.
 */
const [first = 1, last = MOST_SEEDS] = process.argv.slice(2).map(Number);
const startMs = performance.now();
let verdict: { readonly by: string; readonly effort: string; readonly seed: number } | null = null;
for (let seed = first; seed <= last && verdict === null && performance.now() - startMs < LONGEST_MS; seed++) {
  const { violation } = await runSeed(seed);
  const effort = `${seed} seed${seed === 1 ? "" : "s"}`;
  if (violation !== null) verdict = { by: `${violation.invariant}: ${violation.message}`, effort, seed };
}
console.log(JSON.stringify(verdict));
process.exit(0);
