import { createHash } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { capture, packageProgram, requireWritable, ROOT, SetupError } from "./project.mjs";

const DIST = join(ROOT, "dist");
const STAMP = join(DIST, ".sources");
/** Folders with TypeScript to compile; whatever else lies in them is copied. */
const COMPILED = ["runtime", "web"];
const COPIED = ["schemas"];
const TYPESCRIPT = /\.tsx?$/;
const BUILD_INFO = join(ROOT, "node_modules", ".cache", "turno-build.tsbuildinfo");

/** Compiles to dist/ when a source changed since the last build; true when it did. */
export async function buildDist() {
  const sources = (await Promise.all([...COMPILED, ...COPIED].map(listFiles))).flat();
  const stamp = await fingerprint(sources);
  if ((await readFile(STAMP, "utf8").catch(() => null)) === stamp) return false;
  await requireWritable("building");
  console.error("Building ...");
  // tsc believes its own notes and writes nothing for a dist that was removed.
  if ((await stat(STAMP).catch(() => null)) === null) await rm(BUILD_INFO, { force: true });
  await rm(STAMP, { force: true });
  const { code, output } = await capture(process.execPath, [packageProgram("typescript/bin/tsc"), "-p", "tsconfig.build.json"]);
  if (code !== 0) throw new SetupError(`${output.trimEnd()}\nThe build failed: mend what tsc says above.`);
  await copyAssets(sources);
  await removeOrphans(sources);
  await writeFile(STAMP, stamp);
  return true;
}

async function copyAssets(sources) {
  for (const source of sources.filter((path) => !TYPESCRIPT.test(path))) {
    const target = join(DIST, source);
    await mkdir(dirname(target), { recursive: true });
    await copyFile(join(ROOT, source), target);
  }
}

/** What was built from a source that is gone must not be found by anybody. */
async function removeOrphans(sources) {
  const stems = new Set(sources.map((path) => (TYPESCRIPT.test(path) ? path.replace(TYPESCRIPT, "") : path)));
  const built = (await Promise.all([...COMPILED, ...COPIED].map((folder) => listFiles(join("dist", folder))))).flat();
  for (const path of built) {
    const name = relative("dist", path);
    if (stems.has(name) || stems.has(name.replace(/(\.d\.ts|\.js)(\.map)?$/, ""))) continue;
    await rm(join(ROOT, path));
  }
}

/** Size and time of every source, of the compiler's settings and of the lock file. */
async function fingerprint(sources) {
  const hash = createHash("sha256").update(process.versions.node);
  for (const path of [...sources, "tsconfig.json", "tsconfig.build.json", "package-lock.json"].sort()) {
    const { size, mtimeMs } = await stat(join(ROOT, path));
    hash.update(`${path}\0${size}\0${mtimeMs}\n`);
  }
  return hash.digest("hex");
}

async function listFiles(folder) {
  const entries = await readdir(join(ROOT, folder), { recursive: true, withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isFile()).map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
}
