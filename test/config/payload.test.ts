import { describe, expect, test } from "vitest";
import { describeUnsafePattern } from "../../runtime/config/pattern-safety.ts";
import { compilePayloadSchema, createPayloadValidator } from "../../runtime/config/payload.ts";
import type { JsonObject } from "../../runtime/core/json.ts";
import { findUnstorable } from "../../runtime/core/unstorable.ts";

const order: JsonObject = {
  type: "object",
  required: ["id"],
  additionalProperties: false,
  properties: {
    id: { type: "integer", minimum: 1 },
    mail: { type: "string", format: "email" },
    state: { enum: ["new", "paid"] },
    lines: { type: "array", items: { $ref: "#/$defs/line" } },
    parent: { $ref: "#" },
  },
  $defs: {
    line: {
      type: "object",
      required: ["sku"],
      properties: { "sku/code": { type: "string" }, sku: { type: "string" } },
    },
  },
};

describe("payload schemas", () => {
  test("tell every problem by JSON Pointer", () => {
    const compiled = compilePayloadSchema(order);
    if (!compiled.ok) throw new Error("expected it to compile");
    expect(
      compiled.validate({ id: 1, mail: "a@example.com", state: "new", lines: [{ sku: "x" }], parent: { id: 2 } }),
    ).toEqual([]);
    const found = compiled.validate({
      id: 0,
      mail: "a",
      state: "old",
      lines: [{ "sku/code": 1 }],
      parent: {},
      "a/b": 1,
    });
    expect(found.map(({ pointer }) => pointer).sort()).toEqual([
      "/a~1b",
      "/id",
      "/lines/0/sku",
      "/lines/0/sku~1code",
      "/mail",
      "/parent/id",
      "/state",
    ]);
  });

  test("can be true and false", () => {
    const validate = createPayloadValidator();
    expect(validate(true, { a: 1 })).toEqual([]);
    expect(validate(false, { a: 1 })).toHaveLength(1);
  });

  test("are refused when a keyword, a format or a reference is unknown", () => {
    const problems = (schema: JsonObject): unknown => {
      const compiled = compilePayloadSchema(schema);
      return compiled.ok ? [] : compiled.problems.map(({ pointer }) => pointer);
    };
    expect(problems({ requird: ["a"] })).toEqual(["/requird"]);
    expect(problems({ properties: { a: { format: "emial" } } })).toEqual([""]);
    expect(problems({ $ref: "#/$defs/none" })).toEqual([""]);
    expect(problems({ minimum: "1" })).toEqual(["/minimum"]);
    expect(problems({ pattern: "[" })).toEqual(["/pattern"]);
    expect(problems({ patternProperties: { "^(a|a)*$": true } })).toEqual(["/patternProperties/^(a|a)*$"]);
    expect(problems({ const: { pattern: "(a+)+$" }, title: "x", examples: [{ requird: 1 }] })).toEqual([]);
  });

  test("are compiled once by content, and one that is broken refuses every payload", () => {
    const validate = createPayloadValidator(2);
    for (let round = 0; round < 5; round++) {
      for (const minimum of [1, 2, 3]) {
        expect(validate({ type: "integer", minimum }, minimum)).toEqual([]);
        expect(validate({ minimum, type: "integer" }, minimum - 1)).toHaveLength(1);
      }
    }
    expect(validate({ nonsense: 1 }, {})[0]?.message).toContain("cannot be used");
  });

  test("a pattern never sees a text that could keep it busy", () => {
    const validate = createPayloadValidator();
    const schema = { type: "string", pattern: "^a*a*$" };
    expect(validate(schema, "aaaa")).toEqual([]);
    const before = performance.now();
    expect(validate(schema, `${"a".repeat(200_000)}b`)).toHaveLength(1);
    expect(performance.now() - before).toBeLessThan(2_000);
  });
});

describe("patterns", () => {
  test.each([
    "(a+)+$",
    "^(a|a)*$",
    "(a*)*",
    "(a*b?)*",
    "(.*)*x",
    "(x+x+)+y",
    "^(a|ab|b)*$",
    "^(\\w+\\s?)*$",
    "(\\p{L}+ ?)+",
    "^(?=(a+)+b)a",
    "(.*a){12}",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "^([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+$",
  ])("%s is refused: it can take exponential time", (source) => {
    expect(describeUnsafePattern(source)).toContain("exponential time");
  });

  test.each([
    "^(a|b)*$",
    "^([a-z0-9]+-)*[a-z0-9]+$",
    "^(foo|bar|baz)+$",
    "^\\d{4}-\\d{2}-\\d{2}$",
    "^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$",
    "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    "^(?!x)[\\]\\-a-z\\u{1F600}]+$",
    "^$",
    "",
  ])("%s is accepted", (source) => {
    expect(describeUnsafePattern(source)).toBeNull();
  });

  test("back references and what is no pattern are refused", () => {
    expect(describeUnsafePattern("(a)\\1")).toContain("back reference");
    expect(describeUnsafePattern("(")).toContain("not a regular expression");
  });
});

test("findUnstorable points at the first text or key that the database refuses", () => {
  expect(findUnstorable({ a: "x\u0000y" })).toBe("/a");
  expect(findUnstorable({ a: "\ud83d" })).toBe("/a");
  expect(findUnstorable({ a: [{ "b/c": "\ude00" }] })).toBe("/a/0/b~1c");
  expect(findUnstorable({ "\u0000k": 1 })).toBe("/\u0000k");
  expect(findUnstorable({ a: "\ud83d\ude00", b: "\\u0000" })).toBeNull();
});

test("the schema that the jobs of a batch share is written out once", () => {
  let reads = 0;
  const schema = {
    type: "object",
    get properties() {
      reads += 1;
      return { n: { type: "integer" } };
    },
  };
  const validate = createPayloadValidator();
  expect(validate(schema, { n: "x" })).not.toEqual([]);
  const once = reads;
  for (let n = 0; n < 10; n++) expect(validate(schema, { n })).toEqual([]);
  expect(reads).toBe(once);
});
