// npm run sim: the engine in a simulated world, seed after seed. See test/sim/README.md.
import "./check-node.mjs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ROOT } from "./project.mjs";

const folder = await mkdtemp(join(tmpdir(), "turno-sim-"));
try {
  const { build } = await import("esbuild");
  await mkdir(folder, { recursive: true });
  const outfile = join(folder, "sim.mjs");
  await build({
    absWorkingDir: ROOT,
    entryPoints: ["test/sim/command.ts"],
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    sourcemap: "inline",
    logLevel: "warning",
    outfile,
  });
  process.setSourceMapsEnabled(true);
  const { runCommand } = await import(pathToFileURL(outfile).href);
  process.exitCode = await runCommand(process.argv.slice(2), { program: outfile });
} finally {
  await rm(folder, { recursive: true, force: true });
}
