import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { defineConfig, mergeConfig } from "vitest/config";
import project from "../../vitest.config.ts";
import { MUTANTS } from "./mutants.ts";
import { mutate } from "./mutate.ts";

/** The project's tests over a copy with one bug in: `TURNO_MUTANT` names it. */
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const mutant = MUTANTS.find(({ name }) => name === process.env.TURNO_MUTANT);
if (mutant === undefined)
  throw new Error(`expected TURNO_MUTANT to name a mutant, found "${process.env.TURNO_MUTANT}"`);

const plugin: Plugin = {
  name: "mutant",
  enforce: "pre",
  transform(text, id) {
    const path = relative(ROOT, id.split("?")[0] ?? id).replaceAll("\\", "/");
    return path === mutant.file ? { code: mutate(mutant, text), map: null } : undefined;
  },
};

const config = mergeConfig(project, defineConfig({ root: ROOT, plugins: [plugin] }));
// In memory nothing of PostgreSQL is needed.
if (mutant.level === "memory") config.test = { ...config.test, globalSetup: [] };
export default config;
