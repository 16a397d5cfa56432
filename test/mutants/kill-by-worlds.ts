import { exploreAll } from "../worlds/main.ts";

/** Prints how the small worlds saw what is wrong in this copy, as one line of JSON; `null` when they did not. */
const explorations = await exploreAll("quick");
const states = explorations.reduce((sum, exploration) => sum + exploration.states, 0);
const last = explorations.at(-1);
const violation = last?.violation ?? null;
const verdict =
  violation === null
    ? null
    : { by: `${violation.message} (${last?.rules.name}, ${violation.trace.length} steps)`, effort: `${states} states` };
console.log(JSON.stringify(verdict));
