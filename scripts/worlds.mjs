// npm run worlds: every state of the small worlds, as deep as is asked for. Options: --quick, --only NAME, --depth N.
import "./check-node.mjs";
import { rm } from "node:fs/promises";
import { parseArgs } from "node:util";

const { installPackages } = await import("./install.mjs");
const { reportFailure, SetupError } = await import("./project.mjs");

try {
  const options = readOptions();
  await installPackages();
  await exploreWorlds(options);
} catch (error) {
  reportFailure(error);
}

function readOptions() {
  const { values } = parseArgs({
    options: { quick: { type: "boolean", default: false }, only: { type: "string" }, depth: { type: "string" } },
  });
  if (values.depth !== undefined && !/^[1-9]\d?$/.test(values.depth))
    throw new SetupError(`expected --depth to be a whole number from 1 to 99, found "${values.depth}"`);
  return { ...values, depth: values.depth === undefined ? null : Number(values.depth) };
}

async function exploreWorlds({ quick, only, depth }) {
  const { bundleCopy } = await import("./mutant-copies.mjs");
  const bundle = await bundleCopy("test/worlds/main.ts");
  const { SMALL_WORLDS, explore } = await import(bundle);
  await rm(bundle);
  const chosen = SMALL_WORLDS.filter(({ name }) => only === undefined || name === only);
  if (chosen.length === 0)
    throw new SetupError(`expected --only to name one of: ${SMALL_WORLDS.map(({ name }) => name).join(", ")}; found "${only}"`);
  const total = { states: 0, steps: 0 };
  console.log("| world | depth | states | steps | seconds |\n|---|---|---|---|---|");
  for (const world of chosen) {
    const startMs = performance.now();
    const { states, steps, violation, depth: reached } = await explore(world, depth ?? (quick ? world.quick : world.deep));
    const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
    console.log(`| ${world.name} | ${reached} | ${count(states)} | ${count(steps)} | ${seconds} |`);
    total.states += states;
    total.steps += steps;
    if (violation === null) continue;
    console.log(`\n${violation.message}\n${[...world.begin, ...violation.trace].map((step, index) => `${index + 1}. ${step}`).join("\n")}`);
    process.exitCode = 1;
    return;
  }
  console.log(`\n${count(total.states)} states explored by ${count(total.steps)} steps, 0 violations`);
}

function count(number) {
  return number.toLocaleString("en");
}
