import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { requireWritable, ROOT, run, SetupError } from "./project.mjs";

/** Installs what the lock file says, unless exactly that is installed. */
export async function installPackages() {
  if (await isInstalled()) return;
  await requireWritable("installing the packages");
  console.error("Installing the packages of package-lock.json ...");
  const [command, ...args] = npmCommand();
  const code = await run(command, [...args, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"], {
    shell: command.endsWith(".cmd"),
  });
  if (code === 0) return;
  throw new SetupError(
    `npm ci failed with exit code ${code}; its own message stands above.\n` +
      "The first start needs the npm registry (or a mirror set by npm config set registry URL); later ones work offline.",
  );
}

/** npm leaves a list of what it installed; it has to name every package of the lock file in the same version. */
async function isInstalled() {
  const wanted = await readPackages(join(ROOT, "package-lock.json"));
  const found = await readPackages(join(ROOT, "node_modules", ".package-lock.json"));
  if (wanted === null) throw new SetupError(`${join(ROOT, "package-lock.json")} is missing or not readable: restore it from git`);
  if (found === null) return false;
  return Object.entries(wanted).every(([path, { version, optional }]) => {
    if (path === "") return true;
    // Optional packages of other platforms are left out.
    return found[path] === undefined ? optional === true : found[path].version === version;
  });
}

async function readPackages(path) {
  try {
    return JSON.parse(await readFile(path, "utf8")).packages ?? null;
  } catch {
    return null;
  }
}

/** The npm that runs this script, else the one on the PATH. */
export function npmCommand() {
  const self = process.env.npm_execpath;
  if (self?.endsWith(".js")) return [process.execPath, self];
  return [process.platform === "win32" ? "npm.cmd" : "npm"];
}
