import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ROOT, run, SetupError } from "./project.mjs";

const PACKAGES = { rabbitmq: "rabbitmq-server", redis: "redis-server" };
const VARIABLES = { rabbitmq: "TURNO_TEST_RABBITMQ", redis: "TURNO_TEST_REDIS" };

/** The brokers and lock services for the tests, installed when that is possible. Throws a SetupError that says what is missing. */
export async function provideTestServices(env = process.env) {
  if (!(await isNeeded())) return;
  const programs = await loadServices();
  const missing = () => Object.keys(PACKAGES).filter((name) => (env[VARIABLES[name]] ?? "") === "" && !programs.isInstalled(name));
  if (missing().length === 0) return;
  if (process.getuid?.() === 0 && programs.findOnPath("apt-get") !== null) {
    const packages = missing().map((name) => PACKAGES[name]);
    console.error(`Installing ${packages.join(" and ")} for the tests (apt-get install) ...`);
    const quiet = { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" }, stdio: ["ignore", "ignore", "inherit"] };
    await run("apt-get", ["-qq", "update"], quiet);
    await run("apt-get", ["-qq", "install", "-y", "--no-install-recommends", ...packages], quiet);
  }
  const left = missing();
  if (left.length > 0) throw new SetupError(left.map((name) => programs.MISSING[name]).join("\n\n"));
}

/** test/support/services as one module: the tests start services with the same code. */
export async function loadServices() {
  const { build } = await import("esbuild");
  const folder = await mkdtemp(join(ROOT, "node_modules", ".turno-services-"));
  try {
    const outfile = join(folder, "services.mjs");
    await build({
      absWorkingDir: ROOT,
      entryPoints: ["test/support/services/all.ts"],
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      packages: "external",
      logLevel: "warning",
      outfile,
    });
    return await import(pathToFileURL(outfile).href);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Whether any test uses a service. */
async function isNeeded() {
  const folder = join(ROOT, "test");
  for (const entry of await readdir(folder, { recursive: true })) {
    if (!/\.test\.tsx?$/.test(entry)) continue;
    if (/support\/(services\/|redis\.ts)/.test(await readFile(join(folder, entry), "utf8"))) return true;
  }
  return false;
}
