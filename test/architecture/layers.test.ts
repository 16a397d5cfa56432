import { expect, test } from "vitest";
import { isPureRoom, judgeImport } from "./layer-rules.ts";
import { listPaths, readSources, resolveImport, type SourceFile } from "./project-sources.ts";
import { readImports, scanSource } from "./source-scan.ts";

const sources = await readSources(["runtime", "web"]);
const tests = await readSources(["test"]);
const everything = [...sources, ...tests, ...(await readSources(["bench", "handlers"]))];

/** Every place where the pattern occurs in code, as `file:line` and the sentence. */
function findInCode(files: readonly SourceFile[], pattern: RegExp, sentence: string): string[] {
  return files.flatMap(({ path, code }) =>
    [...code.matchAll(pattern)].map(
      ({ index, 0: found }) => `${path}:${lineAt(code, index)} ${found.trim()}: ${sentence}`,
    ),
  );
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}

test("nobody imports upwards or sideways", () => {
  const found = sources.flatMap(({ path, imports }) =>
    imports.flatMap((entry) => {
      const target = resolveImport(path, entry.specifier);
      const sentence = target === null ? null : judgeImport(path, target, entry);
      return sentence === null ? [] : [`line ${entry.line}: ${sentence}`];
    }),
  );
  expect(found).toEqual([]);
});

test("imports make no cycle, imports of types included", () => {
  const graph = new Map(
    sources.map(({ path, imports }) => [
      path,
      imports.flatMap(({ specifier }) => resolveImport(path, specifier) ?? []),
    ]),
  );
  expect(findCycles(graph)).toEqual([]);
});

test("only the PostgreSQL adapter talks to the driver", () => {
  const found = sources
    .filter(({ path }) => !path.startsWith("runtime/adapters/postgres/"))
    .flatMap(({ path, imports }) =>
      imports.filter(({ specifier }) => /^pg(\/|$)/.test(specifier)).map(({ line }) => `${path}:${line}`),
    );
  expect(found).toEqual([]);
});

test("handlers import the package turno, other packages and their own files", () => {
  const found = everything
    .filter(({ path }) => path.startsWith("handlers/"))
    .flatMap(({ path, imports }) => imports.map(({ specifier }) => ({ path, target: resolveImport(path, specifier) })))
    .filter(({ target }) => target !== null && !target.startsWith("handlers/"));
  expect(found).toEqual([]);
});

test("time, randomness and the environment come through ports", () => {
  const pure = sources.filter(({ path }) => isPureRoom(path));
  const hidden =
    /\bDate\.now\b|\bnew Date\s*(?:\(\s*\)|(?=[;,)\s]))|(?<![.\w])Date\(\)|\bMath\.random\b|\brandomUUID\b|\bperformance\.now\b|(?<![.\w])(?:setTimeout|setInterval)\b|\bprocess\.(?:env|hrtime)\b/g;
  expect(findInCode(pure, hidden, "take the Clock, Ids or Random port, or the value as a parameter")).toEqual([]);
});

test("SQL stands in the PostgreSQL adapter and nowhere else", () => {
  const statement =
    /^\s*(?:--[^\n]*\n\s*)*(?:select|insert|update|delete|with|merge|truncate|create|alter|drop)\b[\s\S]*\bturno\./i;
  const found = sources
    .filter(({ path }) => !path.startsWith("runtime/adapters/postgres/"))
    .flatMap(({ path, literals }) =>
      literals.filter(({ text }) => statement.test(text)).map(({ line }) => `${path}:${line}`),
    );
  expect(found).toEqual([]);
});

test("no type is any, and no interface carries an I", () => {
  const anyType = /(?:[:<|&,(]|=>|\bas|=)\s*any\s*(?=[;,)>\]=|&[{]|$)|\bany\[\]/gm;
  expect(findInCode(everything, anyType, "name the type, or use unknown")).toEqual([]);
  expect(findInCode(everything, /\binterface I[A-Z]\w*/g, "name it for what it is")).toEqual([]);
});

test("files are named for what they hold, in kebab-case", async () => {
  const paths = await listPaths(["runtime", "web", "test", "bench", "handlers", "scripts", "schemas"]);
  const names = paths.filter((path) => !path.startsWith("web/assets/vendor/"));
  const vague = /(?:^|[/.-])(?:utils?|helpers?|common|manager|misc)(?=[/.-])/;
  expect(names.filter((path) => vague.test(path))).toEqual([]);
  const code = names.filter((path) => /\.(?:tsx?|mjs|js)$/.test(path));
  expect(code.filter((path) => !/\/[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+)+$/.test(path))).toEqual([]);
});

test("tests do not sleep: they await an event or move a clock", () => {
  const files = tests.filter(({ path }) => !path.startsWith("test/support/"));
  const sleeping = /(?<![.\w])(?:globalThis\.)?(?:setTimeout|setInterval)\s*\(/g;
  const imported = files.flatMap(({ path, imports }) =>
    imports
      .filter(({ specifier }) => /^(?:node:)?timers\/promises$/.test(specifier))
      .map(({ line }) => `${path}:${line} timers/promises`),
  );
  expect([...findInCode(files, sleeping, "await an event or move the clock"), ...imported]).toEqual([]);
});

test("no test is skipped, narrowed or expected to fail", () => {
  const skipping = /\b(?:test|it|describe|suite)\.(?:skip|only|todo|skipIf|runIf|fails)\b|\bctx\.skip\(/g;
  expect(findInCode(tests, skipping, "a test runs, or is not there")).toEqual([]);
});

test("code holds no notes to come back to and no switched-off checks", () => {
  const note = /\b(?:TODO|FIXME|XXX|HACK)\b|@ts-(?:ignore|expect-error|nocheck)|biome-ignore(?! [\w/]+: \S)/;
  const found = everything.flatMap(({ path, comments }) =>
    comments.filter(({ text }) => note.test(text)).map(({ line, text }) => `${path}:${line} ${text}`),
  );
  expect(found).toEqual([]);
});

test("the scanner tells code from comments, strings, templates and regular expressions", () => {
  const text = [
    "const a = 'Date.now()'; // Date.now()",
    '/* Math.random() */ const b = "it\'s";',
    "const c = `x §{`inner §{Date.now()} any`} select 1 from turno.jobs`;",
    "const d = /['\"`/*]+/.test(a) / 2; const e = Math.random();",
  ]
    .join("\n")
    .replaceAll("§", "$");
  const { code, literals } = scanSource(text);
  expect([...code.matchAll(/Date\.now|Math\.random/g)].map(({ index }) => lineAt(code, index))).toEqual([3, 4]);
  expect(literals.map(({ text: literal }) => literal)).toContain(" select 1 from turno.jobs");
  expect(code).not.toContain("any");
});

test("the scanner finds every form of import and knows which bring types only", () => {
  const text = [
    'import a, { type B } from "./a.ts";',
    "import type { C } from './c.ts';",
    'import { type D, type E } from "./d.ts";',
    'import "./side.ts";',
    'export * from "./again.ts";',
    'export type { F } from "./f.ts";',
    'const g = await import("./g.ts"); let h: import("./h.ts").H;',
    'import {\n  i,\n  type J,\n} from "./i.ts";',
    'const fake = "from \'./no.ts\'"; // import "./never.ts"',
  ].join("\n");
  const found = readImports(scanSource(text)).map(
    ({ specifier, isTypeOnly }) => `${specifier}${isTypeOnly ? " type" : ""}`,
  );
  expect(found.sort()).toEqual(
    [
      "./a.ts",
      "./again.ts",
      "./c.ts type",
      "./d.ts type",
      "./f.ts type",
      "./g.ts",
      "./h.ts type",
      "./i.ts",
      "./side.ts",
    ].sort(),
  );
});

test("the layer rules refuse what the architecture refuses", () => {
  const refused = (from: string, to: string, isTypeOnly = false) => judgeImport(from, to, { isTypeOnly }) !== null;
  expect(refused("runtime/core/a.ts", "runtime/time/b.ts", true)).toBe(true);
  expect(refused("runtime/adapters/redis/a.ts", "runtime/adapters/postgres/b.ts", true)).toBe(true);
  expect(refused("runtime/adapters/postgres/a.ts", "runtime/adapters/postgres/b.ts")).toBe(false);
  expect(refused("runtime/services/a.ts", "runtime/adapters/postgres/b.ts", true)).toBe(true);
  expect(refused("runtime/adapters/postgres/a.ts", "runtime/protocol/fencing.ts", true)).toBe(true);
  expect(refused("runtime/adapters/postgres/a.ts", "runtime/protocol/ports/jobs.ts")).toBe(false);
  expect(refused("runtime/protocol/a.ts", "runtime/config/objects.ts", true)).toBe(false);
  expect(refused("runtime/protocol/a.ts", "runtime/config/objects.ts")).toBe(true);
  expect(refused("web/a.ts", "runtime/services/b.ts", true)).toBe(true);
  expect(refused("runtime/reconcile/a.ts", "runtime/protocol/fencing.ts", true)).toBe(true);
  expect(refused("runtime/cli/main.ts", "runtime/adapters/postgres/b.ts")).toBe(false);
  expect(refused("runtime/handler.ts", "runtime/config/objects.ts", true)).toBe(true);
  expect(
    findCycles(
      new Map([
        ["a", ["b"]],
        ["b", ["c"]],
        ["c", ["b"]],
      ]),
    ),
  ).toEqual(["b → c → b"]);
});

/** One line a cycle: the path from a file back to itself. */
function findCycles(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, above: readonly string[]) => {
    const start = above.indexOf(path);
    if (start !== -1) found.push([...above.slice(start), path].join(" → "));
    if (start !== -1 || done.has(path)) return;
    for (const next of graph.get(path) ?? []) visit(next, [...above, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  return found;
}
