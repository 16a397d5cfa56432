import { createHash } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const built = new Map<string, URL>();

/**
 * The file that a thread or process starts with. In a build it lies beside this module; run from TypeScript sources,
 * it is bundled once into node_modules/.cache, since threads have no loader for TypeScript.
 */
export function entryFile(name: "thread-entry" | "process-entry" | "process-watch"): URL {
  if (!import.meta.url.endsWith(".ts")) return new URL(`./${name}.js`, import.meta.url);
  const known = built.get(name);
  if (known !== undefined) return known;
  const { buildSync } = createRequire(import.meta.url)("esbuild") as typeof import("esbuild");
  const { outputFiles } = buildSync({
    entryPoints: [fileURLToPath(new URL(`./${name}.ts`, import.meta.url))],
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    write: false,
    logLevel: "silent",
  });
  const code = outputFiles[0]?.text ?? "";
  const folder = fileURLToPath(new URL("../../../node_modules/.cache/turno/", import.meta.url));
  const file = join(folder, `${name}-${createHash("sha256").update(code).digest("hex").slice(0, 16)}.mjs`);
  mkdirSync(folder, { recursive: true });
  const partial = `${file}.${process.pid}`;
  writeFileSync(partial, code);
  renameSync(partial, file);
  const url = pathToFileURL(file);
  built.set(name, url);
  return url;
}
