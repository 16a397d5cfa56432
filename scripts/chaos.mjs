// `npm run chaos`: real processes, killed, stopped, cut off and restarted from a seed, and an oracle that knows nothing of Turno.
// Options: --minutes N, --seed N, --lease 6s|60s, --workers N, --isolation thread|process|mixed, --pgbouncer, --full (RabbitMQ and three Redis nodes), --rate N, --out FILE, --keep.
import "./check-node.mjs";
import { randomInt } from "node:crypto";
import { accessSync, constants } from "node:fs";
import { mkdir } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";

const { installPackages } = await import("./install.mjs");
const { buildDist } = await import("./build-dist.mjs");
const { ROOT } = await import("./project.mjs");

const WRONG = 1;
/** The run itself failed: nothing is known about Turno. */
const BROKEN = 2;
const USAGE = 64;
const INTERRUPTED = 130;
const CACHE = join(ROOT, "node_modules", ".cache", "turno-chaos");

const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    console.error("ending everything; once more ends this process at once");
    interrupted.abort(new Error(`interrupted by ${signal}`));
  });
}

await installPackages();
await buildDist();
const chaos = await import(pathToFileURL(await bundle()).href);
try {
  const options = chaos.readOptions(process.argv.slice(2), randomInt(1, 1_000_000));
  const pgbouncer = findProgram("pgbouncer");
  if (options.pgbouncer && pgbouncer === null) {
    throw new chaos.UsageError(
      "--pgbouncer was given and pgbouncer was not found on the PATH or in /usr/sbin: install it (Debian, Ubuntu: apt-get install pgbouncer; macOS: brew install pgbouncer)",
    );
  }
  if (!options.pgbouncer && pgbouncer === null) console.error("pgbouncer is not installed (Debian, Ubuntu: apt-get install pgbouncer), so no run can go through it");
  const { summary, folder, executionFolder } = await chaos.runChaos(options, {
    turnoRoot: ROOT,
    pgbouncer,
    progress: (text) => console.error(`${new Date().toISOString().slice(11, 19)} ${text}`),
    signal: interrupted.signal,
  });
  const out = options.out ?? join(ROOT, ".turno", "chaos", `seed-${summary.seed}-${summary.lease}-${summary.isolation}.json`);
  await chaos.writeResult(out, summary);
  console.log(summary.command);
  console.log(chaos.renderSummary(summary));
  console.error(`the same as JSON: ${out}`);
  if (chaos.isGreen(summary)) {
    if (options.keep) console.error(`ledgers and logs: ${folder}`);
    else await chaos.removeFolder(folder);
  } else {
    console.log(chaos.renderWrongs(summary, executionFolder));
    console.log(`ledgers and logs: ${folder}`);
    process.exitCode = WRONG;
  }
} catch (error) {
  if (error instanceof chaos.UsageError) {
    console.error(error.message);
    process.exitCode = USAGE;
  } else if (interrupted.signal.aborted) {
    console.error("interrupted: everything has been ended, and nothing was judged");
    process.exitCode = INTERRUPTED;
  } else {
    console.error("THE RUN ITSELF FAILED and says nothing about Turno:");
    console.error(error);
    process.exitCode = BROKEN;
  }
}

/** Compiles chaos/ into one file; Turno itself stays what was built. */
async function bundle() {
  const { build } = await import("esbuild");
  await mkdir(CACHE, { recursive: true });
  const outfile = join(CACHE, "run.mjs");
  await build({
    entryPoints: [join(ROOT, "chaos", "run.ts")],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    sourcemap: "inline",
    logLevel: "error",
    plugins: [
      {
        name: "built-turno",
        setup({ onResolve }) {
          onResolve({ filter: /^\.\.\/runtime\// }, ({ path }) => ({
            path: pathToFileURL(join(ROOT, "dist", path.slice(3).replace(/\.ts$/, ".js"))).href,
            external: true,
          }));
        },
      },
    ],
  });
  return outfile;
}

function findProgram(name) {
  for (const folder of [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"]) {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return join(folder, name);
    } catch {
      // Not in this folder.
    }
  }
  return null;
}
