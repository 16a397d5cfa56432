import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { KINDS } from "../../runtime/config/schema.generated.ts";
import { selectSchema } from "../../runtime/config/schema-selection.ts";
import { validateDocument } from "../../runtime/config/validate.ts";

const root = join(import.meta.dirname, "../..");
const script = (await import(join(root, "scripts/generate-schema-types.mjs"))) as {
  generateFromSchemas(root: string): Readonly<Record<string, string>>;
};

/** As an editor sees them: without Turno's own keywords. */
function editorEngine(): Ajv2020 {
  return new Ajv2020({ strict: false, allErrors: true });
}

test.each(Object.entries(script.generateFromSchemas(root)))("%s is what the schemas give", (path, text) => {
  expect(readFileSync(join(root, path), "utf8")).toBe(text);
});

test.each(KINDS)("the examples of %s are valid, in the loader's eyes and in the editor's", (kind) => {
  const schema = selectSchema(kind);
  const examples = (schema?.examples ?? []) as readonly never[];
  expect(examples.length).toBeGreaterThan(0);
  const combined = editorEngine().compile(selectSchema(null) as object);
  const single = editorEngine().compile(schema as object);
  for (const example of examples) {
    expect(validateDocument(kind, example)).toMatchObject({ ok: true });
    expect([combined(example), combined.errors, single(example), single.errors]).toEqual([true, null, true, null]);
  }
});

test("the combined schema refuses unknown keys of every kind", () => {
  const combined = editorEngine().compile(selectSchema(null) as object);
  for (const kind of KINDS) {
    const spec = { nonsense: 1 };
    expect(combined({ apiVersion: "turno/v1", kind, metadata: { name: "x" }, spec })).toBe(false);
  }
});

test("every field of the schemas is described", () => {
  const missing: string[] = [];
  const walk = (schema: Record<string, unknown>, path: string): void => {
    for (const [name, property] of Object.entries(
      (schema.properties ?? {}) as Record<string, Record<string, unknown>>,
    )) {
      const below = `${path}.${name}`;
      const referred = typeof property.$ref === "string";
      if (property.description === undefined && !referred && !/\.(spec|metadata)$/.test(below)) missing.push(below);
      walk(property, below);
      if (typeof property.items === "object") walk(property.items as Record<string, unknown>, `${below}[]`);
    }
  };
  const definitions = selectSchema(null)?.$defs as Record<string, Record<string, unknown>>;
  for (const [name, definition] of Object.entries(definitions)) walk(definition, name);
  expect(missing).toEqual([]);
});

test("the YAML of the reference is valid", () => {
  const reference = readFileSync(join(root, "docs/configuration.md"), "utf8");
  const blocks = [...reference.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) => parse(text ?? "") as never);
  expect(blocks.length).toBeGreaterThan(KINDS.length);
  for (const block of blocks)
    expect(validateDocument((block as { kind: "Job" }).kind, block)).toMatchObject({ ok: true });
});
