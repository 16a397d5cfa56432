import { SITUATIONS, type Situation } from "./reach.ts";
import { runSeed, type SeedResult } from "./run-seed.ts";

export interface RunsOptions {
  readonly from: number;
  readonly count: number;
  /** Ends before all seeds have run. */
  readonly signal?: AbortSignal;
  readonly stopAtViolation?: boolean;
  readonly onSeed?: (result: SeedResult) => void;
}

export interface Summary {
  readonly seeds: number;
  readonly simulatedMs: number;
  readonly events: number;
  readonly jobs: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly reach: Readonly<Record<Situation, number>>;
  readonly violations: readonly Pick<SeedResult, "seed" | "violation">[];
}

/** Many seeds, one after another. */
export async function runSeeds(options: RunsOptions): Promise<Summary> {
  const { from, count, signal, stopAtViolation = false, onSeed } = options;
  const total = emptySummary();
  for (let seed = from; seed < from + count && signal?.aborted !== true; seed++) {
    const result = await runSeed(seed);
    add(total, result);
    onSeed?.(result);
    if (stopAtViolation && result.violation !== null) break;
  }
  return total;
}

type Sum = { -readonly [Field in keyof Summary]: Summary[Field] } & {
  faults: Record<string, number>;
  reach: Record<Situation, number>;
  violations: Pick<SeedResult, "seed" | "violation">[];
};

export function emptySummary(): Sum {
  const reach = Object.fromEntries(SITUATIONS.map((situation) => [situation, 0])) as Record<Situation, number>;
  return { seeds: 0, simulatedMs: 0, events: 0, jobs: 0, faults: {}, reach, violations: [] };
}

function add(total: Sum, result: SeedResult): void {
  const { seed, violation, reach, faults } = result;
  addSummary(total, {
    seeds: 1,
    simulatedMs: result.simulatedMs,
    events: result.events,
    jobs: result.jobs,
    faults,
    reach: reach as Summary["reach"],
    violations: violation === null ? [] : [{ seed, violation }],
  });
}

/** Adds the sums of one run to another's. */
export function addSummary(total: Sum, part: Summary): void {
  total.seeds += part.seeds;
  total.simulatedMs += part.simulatedMs;
  total.events += part.events;
  total.jobs += part.jobs;
  for (const [kind, count] of Object.entries(part.faults)) total.faults[kind] = (total.faults[kind] ?? 0) + count;
  for (const [situation, count] of Object.entries(part.reach) as [Situation, number][]) total.reach[situation] += count;
  total.violations.push(...part.violations);
}

/** Situations that none of the seeds met. */
export function unreached(reach: Summary["reach"]): readonly Situation[] {
  return SITUATIONS.filter((situation) => reach[situation] === 0);
}
