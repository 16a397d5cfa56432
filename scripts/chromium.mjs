import { access, constants, readdir, readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { ROOT, run, SetupError } from "./project.mjs";

const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"];
const APPLICATIONS = [
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/** The browser for the tests of the panel, installed when that is possible; null when no test needs one. */
export async function provideChromium() {
  if (!(await isNeeded())) return null;
  const found = await findChromium();
  if (found !== null) return found;
  if (process.getuid?.() === 0 && (await findOnPath(["apt-get"])) !== null) {
    console.error("Installing Chromium for the panel's tests (apt-get install chromium) ...");
    const quiet = { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" }, stdio: ["ignore", "ignore", "inherit"] };
    await run("apt-get", ["-qq", "update"], quiet);
    await run("apt-get", ["-qq", "install", "-y", "--no-install-recommends", "chromium"], quiet);
    const installed = await findChromium();
    if (installed !== null) return installed;
  }
  throw new SetupError(
    "The tests of the panel need Chromium or Chrome, and there is none on the PATH. Install one:\n" +
      "  Debian, Ubuntu   sudo apt-get install chromium\n" +
      "  Fedora           sudo dnf install chromium\n" +
      "  macOS            brew install --cask google-chrome\n" +
      "or set TURNO_CHROMIUM to the path of its program.",
  );
}

async function findChromium() {
  const named = process.env.TURNO_CHROMIUM;
  if (named !== undefined && named !== "") {
    if (await isExecutable(named)) return named;
    throw new SetupError(`TURNO_CHROMIUM is ${named}, which is not a program that can be run`);
  }
  const onPath = await findOnPath(NAMES);
  if (onPath !== null) return onPath;
  for (const path of APPLICATIONS) if (await isExecutable(path)) return path;
  return null;
}

async function findOnPath(names) {
  for (const name of names) {
    for (const folder of (process.env.PATH ?? "").split(delimiter)) {
      const path = join(folder, name);
      if (folder !== "" && (await isExecutable(path))) return path;
    }
  }
  return null;
}

/** Whether any test drives a browser. */
async function isNeeded() {
  const folder = join(ROOT, "test");
  for (const entry of await readdir(folder, { recursive: true })) {
    if (!/\.test\.tsx?$/.test(entry)) continue;
    if (/support\/browser\.ts|playwright-core/.test(await readFile(join(folder, entry), "utf8"))) return true;
  }
  return false;
}

function isExecutable(path) {
  return access(path, constants.X_OK).then(() => true, () => false);
}
