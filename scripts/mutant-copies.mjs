import { randomBytes } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { build } from "esbuild";
import { ROOT } from "./project.mjs";

/** Below node_modules, so that packages are found and lint and tests never see it. */
const COPIES = join(ROOT, "node_modules", ".cache", "turno-copies");

/** Bundles a TypeScript entry of this project with its own files in; with a mutant, one of them is another. Returns the bundle's path. */
export async function bundleCopy(entry, mutant = null) {
  await mkdir(COPIES, { recursive: true });
  const outfile = join(COPIES, `${randomBytes(8).toString("hex")}.mjs`);
  await build({
    entryPoints: [join(ROOT, entry)],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    logLevel: "error",
    plugins: mutant === null ? [] : [replacing(mutant)],
  });
  return outfile;
}

/** The text of the mutant's file with its bug in; fails with its name when the place is gone. */
export function mutate(mutant, text) {
  const found = text.split(mutant.find).length - 1;
  if (found !== 1)
    throw new Error(`the mutant "${mutant.name}" expects its text once in ${mutant.file} and finds it ${found} times: say what it is now`);
  return text.replace(mutant.find, () => mutant.replace);
}

function replacing(mutant) {
  return {
    name: "mutant",
    setup({ onLoad }) {
      onLoad({ filter: /\.tsx?$/ }, async ({ path }) => {
        if (relative(ROOT, path).replaceAll("\\", "/") !== mutant.file) return undefined;
        return { contents: mutate(mutant, await readFile(path, "utf8")), loader: "ts" };
      });
    },
  };
}
