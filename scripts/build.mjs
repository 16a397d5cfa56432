import "./check-node.mjs";

const { installPackages } = await import("./install.mjs");
const { buildDist } = await import("./build-dist.mjs");
const { reportFailure } = await import("./project.mjs");

try {
  await installPackages();
  console.error((await buildDist()) ? "Built dist/." : "dist/ is up to date.");
} catch (error) {
  reportFailure(error);
}
