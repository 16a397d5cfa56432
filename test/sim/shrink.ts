import type { Violation } from "./invariants.ts";
import type { Plan } from "./plan.ts";
import { runPlan } from "./run-seed.ts";

/**
 * The ids of the faults and wishes without which the violation does not come: whatever can be left out is left out,
 * in ever smaller pieces (delta debugging, Zeller and Hildebrandt 2002), as long as the same invariant breaks.
 */
export async function shrinkPlan(plan: Plan, violation: Violation | null): Promise<ReadonlySet<string>> {
  const stillFails = async (only: ReadonlySet<string>): Promise<boolean> =>
    (await runPlan(plan, { only })).violation?.invariant === violation?.invariant;
  let kept = [...plan.faults, ...plan.work].map(({ id }) => id);
  for (let size = Math.ceil(kept.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < kept.length; ) {
      const without = [...kept.slice(0, at), ...kept.slice(at + size)];
      if (await stillFails(new Set(without))) kept = without;
      else at += size;
    }
  }
  return new Set(kept);
}
