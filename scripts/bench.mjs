// `npm run bench`: no-op jobs through Turno and its peers in one run. Options: --quick, --jobs N, --rounds N, --probes N, --only a,b.
import "./check-node.mjs";
import { copyFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { installPackages, npmCommand } = await import("./install.mjs");
const { buildDist } = await import("./build-dist.mjs");
const { reportFailure, ROOT, run, SetupError } = await import("./project.mjs");

/** Outside bench/, so that lint and tests never see the peers' own files. */
const PEERS = join(ROOT, "node_modules", ".cache", "turno-bench");
const FULL = { jobs: 60_000, rounds: 3, probes: 200 };
const QUICK = { jobs: 8_000, rounds: 1, probes: 20 };

try {
  const options = readOptions();
  await installPackages();
  await buildDist();
  await installPeers();
  const { runBench } = await import("../bench/run.mjs");
  await runBench({ ...options, peersDir: PEERS });
} catch (error) {
  reportFailure(error);
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      quick: { type: "boolean", default: false },
      jobs: { type: "string" },
      rounds: { type: "string" },
      probes: { type: "string" },
      only: { type: "string" },
    },
  });
  const defaults = values.quick ? QUICK : FULL;
  return {
    jobs: readCount("jobs", values.jobs, defaults.jobs),
    rounds: readCount("rounds", values.rounds, defaults.rounds),
    probes: readCount("probes", values.probes, defaults.probes),
    only: values.only?.split(",") ?? null,
  };
}

function readCount(name, text, otherwise) {
  if (text === undefined) return otherwise;
  if (/^[1-9]\d{0,7}$/.test(text)) return Number(text);
  throw new SetupError(`expected --${name} to be a whole number above zero, found "${text}"`);
}

/** Brings what bench/peers/package-lock.json names; a folder that holds exactly that is left as it is. */
async function installPeers() {
  const lock = join(ROOT, "bench", "peers", "package-lock.json");
  const installed = await readFile(join(PEERS, "installed.json"), "utf8").catch(() => null);
  if (installed === (await readFile(lock, "utf8"))) return;
  console.error("Installing the peers of bench/peers/package-lock.json ...");
  await mkdir(PEERS, { recursive: true });
  for (const name of ["package.json", "package-lock.json"])
    await copyFile(join(ROOT, "bench", "peers", name), join(PEERS, name));
  const [command, ...args] = npmCommand();
  const code = await run(
    command,
    [...args, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"],
    {
      cwd: PEERS,
      shell: command.endsWith(".cmd"),
    },
  );
  if (code !== 0)
    throw new SetupError(`npm ci of the peers failed with exit code ${code}; its own message stands above`);
  await copyFile(lock, join(PEERS, "installed.json"));
}
