import { execFile } from "node:child_process";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { bundleHandlers } from "../../runtime/adapters/handlers/bundle.ts";
import { makeFolder, openWorkbench, writeProjectFile } from "./support.ts";

const HANDLER = `import { defineHandler } from "turno";
import { double } from "./lib/double.ts";
export default defineHandler<{ n: number }>(async ({ n }) => double(n));
`;
const FILES = {
  "handlers/a.ts": HANDLER,
  "handlers/lib/double.ts": "export const double = (n: number) => n * 2;\n",
};

/** Processes that this one has started, by a part of their command. */
async function findChildren(command: string): Promise<readonly number[]> {
  const { stdout } = await promisify(execFile)("ps", ["-A", "-o", "pid=,ppid=,args="]);
  const found = stdout.split("\n").flatMap((line) => {
    const [pid, parent, ...args] = line.trim().split(/\s+/);
    return Number(parent) === process.pid && args.join(" ").includes(command) ? [Number(pid)] : [];
  });
  expect(found).not.toEqual([]);
  return found;
}

function bundle(root: string, ...entries: string[]) {
  return bundleHandlers({ root, handlersDir: "handlers", entries });
}

describe("a bundle", () => {
  test("names the files it was made of, relative to the project", async () => {
    const { bundles, problems } = await bundle(makeFolder(FILES), "a.ts");
    expect(problems).toEqual([]);
    expect(bundles[0]?.inputs).toEqual(["handlers/a.ts", "handlers/lib/double.ts"]);
  });

  test("has the same hash in another folder, whatever other handlers there are", async () => {
    const first = makeFolder(FILES);
    const second = makeFolder({ "other file": "" });
    cpSync(join(first, "handlers"), join(second, "deep folder", "handlers"), { recursive: true });
    writeProjectFile(join(second, "deep folder"), "handlers/b.ts", "export default () => 1;");
    writeProjectFile(second, "tsconfig.json", '{ "compilerOptions": { "useDefineForClassFields": false } }');
    const one = await bundle(first, "a.ts");
    const two = await bundle(join(second, "deep folder"), "a.ts", "b.ts");
    expect(two.bundles[0]?.hash).toBe(one.bundles[0]?.hash);
    expect(one.bundles[0]?.hash).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  test("has another hash when an import of an import changes", async () => {
    const root = makeFolder(FILES);
    const before = await bundle(root, "a.ts");
    writeProjectFile(root, "handlers/lib/double.ts", "export const double = (n: number) => n * 3;\n");
    const after = await bundle(root, "a.ts");
    expect(after.bundles[0]?.hash).not.toBe(before.bundles[0]?.hash);
  });

  test("is made though esbuild's process was killed since the one before", async () => {
    const root = makeFolder(FILES);
    await bundle(root, "a.ts");
    for (const pid of await findChildren("esbuild")) process.kill(pid, "SIGKILL");
    writeProjectFile(root, "handlers/b.ts", "export default () => 2;");
    const { bundles, problems } = await bundle(root, "a.ts", "b.ts");
    expect(problems).toEqual([]);
    expect(bundles).toHaveLength(2);
  });

  test("holds npm packages and no code of Turno", async () => {
    const root = makeFolder({
      "handlers/a.ts":
        'import { PermanentError } from "turno"; import { marker } from "tiny"; export default () => { throw new PermanentError(marker); };',
      "node_modules/tiny/package.json": '{ "name": "tiny", "version": "1.0.0", "main": "index.js" }',
      "node_modules/tiny/index.js": 'exports.marker = "tiny-was-here:" + require("path").sep;',
    });
    const { bundles } = await bundle(root, "a.ts");
    expect(bundles[0]?.code).toContain("tiny-was-here");
    expect(bundles[0]?.code).not.toContain("turnoOutcome");
    expect(bundles[0]?.externals).toEqual({});
  });

  test("leaves native packages out and joins their versions to the hash", async () => {
    const root = makeFolder({
      "handlers/a.ts": 'import { fast } from "loader"; export default () => fast();',
      "node_modules/loader/package.json": '{ "name": "loader", "version": "1.2.3", "main": "index.js" }',
      "node_modules/loader/index.js": 'exports.fast = () => require("./build/fast.node");',
      "node_modules/loader/build/fast.node": "not really machine code",
    });
    const before = await bundle(root, "a.ts");
    expect(before.problems).toEqual([]);
    expect(before.bundles[0]?.externals).toEqual({ loader: "1.2.3" });
    expect(before.bundles[0]?.code).toContain('from "loader"');
    writeProjectFile(
      root,
      "node_modules/loader/package.json",
      '{ "name": "loader", "version": "1.2.4", "main": "index.js" }',
    );
    const after = await bundle(root, "a.ts");
    expect(after.bundles[0]?.hash).not.toBe(before.bundles[0]?.hash);
  });

  test("leaves a package out that says it is native, without touching its addon", async () => {
    const root = makeFolder({
      "handlers/a.ts": 'import "gyp"; export default () => 1;',
      "node_modules/gyp/package.json": '{ "name": "gyp", "version": "4.0.0", "dependencies": { "bindings": "1" } }',
      "node_modules/gyp/index.js": "",
    });
    expect((await bundle(root, "a.ts")).bundles[0]?.externals).toEqual({ gyp: "4.0.0" });
  });
});

describe("a problem of a bundle", () => {
  test("has file, line and column", async () => {
    const root = makeFolder({
      "handlers/a.ts": 'export default () => 1;\nconst é = "é"; import x from "./missing.ts";\nconsole.log(x, é);\n',
    });
    const { bundles, problems } = await bundle(root, "a.ts");
    expect(bundles).toEqual([]);
    expect(problems).toEqual([
      { file: "handlers/a.ts", line: 2, column: 30, message: 'Could not resolve "./missing.ts"' },
    ]);
  });

  test("in a shared module is reported once, and the sound handlers are bundled", async () => {
    const root = makeFolder({
      "handlers/a.ts": 'import "./shared.ts"; export default () => 1;',
      "handlers/b.ts": 'import "./shared.ts"; export default () => 2;',
      "handlers/c.ts": "export default () => 3;",
      "handlers/shared.ts": "let = ;",
    });
    const { bundles, problems } = await bundle(root, "a.ts", "b.ts", "c.ts");
    expect(problems.map(({ file, line }) => `${file}:${line}`)).toEqual(["handlers/shared.ts:1"]);
    expect(bundles.map(({ handler }) => handler)).toEqual(["c.ts"]);
  });

  test.each([
    ["a file that is not there", "missing.ts", /there is no handler file handlers\/missing\.ts/],
    ["a path out of the folder", "../turno.ts", /outside of the handlers' folder/],
    ["a module without a default export", "named.ts", /default export/],
    ["a name that turno does not have", "unknown.ts", /No matching export/],
    ["a native addon of nobody", "addon.ts", /has to come from a package/],
  ])("is %s", async (_, entry, message) => {
    const root = makeFolder({
      "turno.ts": "export default () => 1;",
      "handlers/named.ts": "export const handler = () => 1;",
      "handlers/unknown.ts": 'import { nothing } from "turno"; export default () => nothing;',
      "handlers/addon.ts": 'import "./local.node"; export default () => 1;',
      "handlers/local.node": "x",
    });
    const { problems } = await bundle(root, entry);
    expect(problems).toHaveLength(1);
    expect(problems[0]?.message).toMatch(message);
  });
});

describe("a bundle that runs", () => {
  test("shows the handler's own file and line in a stack", async () => {
    const bench = openWorkbench({
      "deep/thrower.ts": 'import { fail } from "../lib/fail.ts";\n\nexport default () => fail();\n',
      "lib/fail.ts":
        "interface Unused { a: string }\n\nexport function fail(): never {\n  throw new Error('here');\n}\n",
    });
    const outcome = await bench.run("deep/thrower.ts");
    const stack = outcome.kind === "threw" ? outcome.error.stack : null;
    expect(stack).toContain(`${join(bench.root, "handlers/lib/fail.ts")}:4:`);
    expect(stack).toContain(`${join(bench.root, "handlers/deep/thrower.ts")}:3:`);
  });

  test("may declare require, __dirname and __filename itself", async () => {
    const bench = openWorkbench({
      "own.ts": [
        'import { createRequire } from "node:module";',
        'import { fileURLToPath } from "node:url";',
        "const require = createRequire(import.meta.url);",
        "const __filename = fileURLToPath(import.meta.url);",
        'const __dirname = __filename.replace(/[^/]*$/, "");',
        'export default () => require("node:path").join(__dirname, "x").endsWith("x");',
      ].join("\n"),
    });
    expect(await bench.run("own.ts")).toEqual({ kind: "returned", result: "true", resultError: null });
  });
});
