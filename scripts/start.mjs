// npm start: installs, builds, and runs `turno up` with the arguments given.
import "./check-node.mjs";

const { installPackages } = await import("./install.mjs");
const { buildDist } = await import("./build-dist.mjs");
const { reportFailure } = await import("./project.mjs");
const { runTurno } = await import("./run-turno.mjs");

try {
  await installPackages();
  await buildDist();
  process.exitCode = await runTurno(["up", ...process.argv.slice(2)]);
} catch (error) {
  reportFailure(error);
}
