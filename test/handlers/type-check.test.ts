import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { typeCheckHandlers } from "../../runtime/adapters/handlers/type-check.ts";
import { makeFolder } from "./support.ts";

const MODULES = fileURLToPath(new URL("../../node_modules", import.meta.url));

function makeTypedProject(files: Readonly<Record<string, string>>): string {
  const root = makeFolder(files);
  symlinkSync(MODULES, join(root, "node_modules"));
  return root;
}

const SOUND = `import { defineHandler } from "turno";
export default defineHandler<{ n: number }>(async (payload, ctx) => { await ctx.progress(payload.n); return payload.n; });
`;
const BROKEN = `import { defineHandler } from "turno";
export default defineHandler<{ n: number }>(async (payload, ctx) => {
  await ctx.progress(payload.text);
});
`;

test("sound handlers have no problems, without a tsconfig.json too", async () => {
  const root = makeTypedProject({ "handlers/a.ts": SOUND });
  expect(await typeCheckHandlers(root, ["handlers/a.ts"])).toEqual([]);
});

test("a type error has file, line and column; files that no handler uses are not looked at", async () => {
  const root = makeTypedProject({
    "handlers/a.ts": SOUND,
    "handlers/b.ts": BROKEN,
    "handlers/unused.ts": "const x: number = 'text'; export default x;",
    "tsconfig.json":
      '{ "compilerOptions": { "strict": true, "module": "nodenext", "target": "es2023", "skipLibCheck": true, "incremental": true, "rootDir": ".", "outDir": "out", "paths": { "turno": ["./turno.d.ts"] }, "types": [] } }',
    "turno.d.ts":
      "export declare function defineHandler<P>(h: (payload: P, ctx: { progress(percent: number): Promise<void> }) => unknown): unknown;",
  });
  expect(await typeCheckHandlers(root, ["handlers/a.ts", "handlers/b.ts"])).toEqual([
    {
      file: "handlers/b.ts",
      line: 3,
      column: 30,
      message: expect.stringMatching(/^TS2339: Property 'text' does not exist/),
    },
  ]);
});

test("a project without TypeScript has no verdict", async () => {
  const root = makeFolder({
    "handlers/a.ts": BROKEN,
    // Stands in the way of a TypeScript in a folder further up.
    "node_modules/typescript/package.json": '{ "name": "typescript", "version": "0.0.0", "exports": {} }',
  });
  expect(await typeCheckHandlers(root, ["handlers/a.ts"])).toBeNull();
});
