import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { MUTANTS, type Mutant } from "./mutants.ts";
import { mutate } from "./mutate.ts";
import { readTable } from "./table.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Seen within few states. */
const SEEN_SOON = [
  "a token for each generation instead of each dispatch",
  "a claim is given back although it is to be cancelled",
  "cancel ends a job that runs",
  "a return before the handler has settled",
];

/** What the small worlds say of a copy with the bug in: a sentence, or null when they see nothing. */
async function judge(mutant: Mutant): Promise<string | null> {
  const { bundleCopy } = (await import(join(ROOT, "scripts/mutant-copies.mjs"))) as {
    bundleCopy(entry: string, change: (path: string, text: string) => string | null): Promise<string>;
  };
  const bundle = await bundleCopy("test/mutants/kill-by-worlds.ts", (path, text) =>
    path === mutant.file ? mutate(mutant, text) : null,
  );
  const child = spawn(process.execPath, [bundle], { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += String(chunk);
  });
  await once(child, "close");
  await rm(bundle);
  return (JSON.parse(output) as { readonly by: string } | null)?.by ?? null;
}

describe("mutants", () => {
  it("are at least thirty, each with a name of its own and in a file of the program", () => {
    expect(MUTANTS.length).toBeGreaterThanOrEqual(30);
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
    for (const { file } of MUTANTS) expect(file).toMatch(/^runtime\//);
  });

  it.each(MUTANTS)("find their place once and change it: $name", async (mutant) => {
    const text = await readFile(join(ROOT, mutant.file), "utf8");
    expect(mutate(mutant, text)).not.toBe(text);
  });

  it("whose place is gone fail with their name", () => {
    const mutant = { name: "no such place", file: "runtime/x.ts", find: "a", replace: "b" };
    expect(() => mutate(mutant, "aa")).toThrow('"no such place" expects its text once in runtime/x.ts and finds it 2');
  });

  it.each(SEEN_SOON)("are seen by small worlds: %s", { timeout: 60_000 }, async (name) => {
    const mutant = MUTANTS.find((one) => one.name === name);
    if (mutant === undefined) throw new Error(`there is no mutant "${name}"`);
    expect(await judge(mutant)).not.toBeNull();
  });

  it("stand in the table of docs/evidence.md, all of them and no other", async () => {
    const names = readTable(await readFile(join(ROOT, "docs/evidence.md"), "utf8"));
    expect(names, "run npm run check:mutants -- --write").toEqual(MUTANTS.map(({ name }) => name));
  });
});
