import { randomBytes } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { build } from "esbuild";
import { ROOT } from "./project.mjs";

/** Below node_modules, so that packages are found and lint and tests never see it. */
const COPIES = join(ROOT, "node_modules", ".cache", "turno-copies");

/** Bundles a TypeScript entry of this project with its own files in; `change` gives a file another text, or null. Returns the bundle's path. */
export async function bundleCopy(entry, change = null) {
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
    plugins: change === null ? [] : [changing(change)],
  });
  return outfile;
}

function changing(change) {
  return {
    name: "change",
    setup({ onLoad }) {
      onLoad({ filter: /\.tsx?$/ }, async ({ path }) => {
        const contents = change(relative(ROOT, path).replaceAll("\\", "/"), await readFile(path, "utf8"));
        return contents === null ? undefined : { contents, loader: path.endsWith("x") ? "tsx" : "ts" };
      });
    },
  };
}
