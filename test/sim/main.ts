export { drawPlan } from "./draw-plan.ts";
export { INVARIANTS, type Invariant, type Violation } from "./invariants.ts";
export type { Fault, Plan, Work } from "./plan.ts";
export { SITUATIONS, type Situation } from "./reach.ts";
export { type RunOptions, runPlan, runSeed, type SeedResult } from "./run-seed.ts";
export { type RunsOptions, runSeeds, type Summary } from "./run-seeds.ts";
