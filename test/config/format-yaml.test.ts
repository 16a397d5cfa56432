import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { formatYaml } from "../../runtime/config/format-yaml.ts";

const ROOT = join(import.meta.dirname, "..", "..");

function format(text: string): string {
  const formatted = formatYaml("turno.d/a.yaml", text);
  if ("problems" in formatted) throw new Error(formatted.problems.map(({ message }) => message).join("; "));
  return formatted.text;
}

describe("formatting YAML", () => {
  it("writes two spaces a level, indented lists, and puts kind and name first, with comments where they were", () => {
    const text = `# what this is for

kind:   Job
spec:
    # why this handler
    handler:   a.ts   # trailing
    tags:
    - a
    -   b

    - c: 1
metadata:
    labels: {team: ops,tier:   "1"}
    name: nightly
apiVersion: turno/v1
`;
    expect(format(text)).toBe(`# what this is for

apiVersion: turno/v1
kind: Job
metadata:
  name: nightly
  labels: { team: ops, tier: "1" }
spec:
  # why this handler
  handler: a.ts # trailing
  tags:
    - a
    - b

    - c: 1
`);
  });

  it("pads mappings and not lists, in one another too", () => {
    expect(format("spec: {a: [1,2, {b: []}],c: {}}\n")).toBe("spec: { a: [1, 2, { b: [] }], c: {} }\n");
  });

  it("keeps quotes, numbers, block texts and anchors", () => {
    const text = `spec:
  double: "it's \\u200b\\u00a0\\t"
  single: 'say "x"'
  plain: 0 3 * * *
  number: 1.50
  literal: |-
    #!/bin/sh
      echo 1
  kept: &here { k: v }
  again: *here
  long: ${"word ".repeat(60).trim()}
`;
    expect(format(text)).toBe(text);
  });

  it("separates documents with --- and ends with one line break, without marks of Windows", () => {
    expect(format("\ufeffkind: Job\r\n\r\n\r\n---\r\n# the second\r\nkind: Queue")).toBe(
      "kind: Job\n---\n# the second\nkind: Queue\n",
    );
  });

  it("gives the problems of a file that cannot be read, with the line", () => {
    expect(formatYaml("turno.d/a.yaml", "kind: Job\nspec: [1\n")).toMatchObject({
      problems: [{ file: "turno.d/a.yaml", line: 3 }],
    });
  });

  it("leaves Turno's own files as they are", () => {
    const files = ["turno.yaml", ...readdirSync(join(ROOT, "turno.d")).map((name) => `turno.d/${name}`)];
    for (const file of files.filter((name) => name.endsWith(".yaml"))) {
      const text = readFileSync(join(ROOT, file), "utf8");
      expect({ file, text: format(text) }).toEqual({ file, text });
    }
  });

  it("never changes what a file says, and changes nothing the second time", () => {
    const value = fc.letrec((tie) => ({
      json: fc.oneof(
        { maxDepth: 3 },
        fc.string({ maxLength: 40 }),
        fc.string({ unit: fc.constantFrom("a", " ", "\n", "#", ":", "-", "'", '"', "\t"), maxLength: 30 }),
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie("json"), { maxLength: 3 }),
        fc.dictionary(fc.string({ minLength: 1, maxLength: 12 }), tie("json"), { maxKeys: 3 }),
      ),
    })).json;
    const style = fc.record({
      indent: fc.constantFrom(2, 3, 4),
      indentSeq: fc.boolean(),
      collectionStyle: fc.constantFrom("any" as const, "block" as const, "flow" as const),
      lineWidth: fc.constantFrom(0, 30, 80),
    });
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom("kind", "spec", "metadata", "x"), value, { minKeys: 1 }),
        style,
        (object, how) => {
          // formatYaml itself compares the values before and after.
          const once = formatYaml("a.yaml", stringify(object, { version: "1.2", ...how }));
          if ("problems" in once) return;
          expect(format(once.text)).toBe(once.text);
        },
      ),
      { numRuns: 300 },
    );
  });
});
