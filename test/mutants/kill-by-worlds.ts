import type { Exploration } from "../worlds/explore.ts";
import { explore, SMALL_WORLDS } from "../worlds/main.ts";

/**
 * Prints how the small worlds saw what is wrong in this copy, as one line of JSON; `null` when they did not. Every world
 * is explored a step further before any goes another one, so that what shows soon is seen soon.
 */
async function findViolation(): Promise<Exploration | null> {
  const deepest = Math.max(...SMALL_WORLDS.map(({ quick }) => quick));
  for (let depth = 1; depth <= deepest; depth++) {
    for (const world of SMALL_WORLDS) {
      if (world.quick < depth) continue;
      const exploration = await explore(world, depth);
      if (exploration.violation !== null) return exploration;
    }
  }
  return null;
}

const found = await findViolation();
const by = `${found?.violation?.message} (${found?.rules.name}, ${found?.violation?.trace.length} steps)`;
console.log(JSON.stringify(found === null ? null : { by, effort: `${found.states} states` }));
