import { describe, expect, test } from "vitest";
import { MAX_RESULT_BYTES, storableJson, storableText } from "../../runtime/core/storable.ts";

describe("a result as JSON that PostgreSQL takes", () => {
  test("ordinary values stay as they are", () => {
    expect(storableJson({ a: [1, "x", null, true] })).toEqual({ text: '{"a":[1,"x",null,true]}', error: null });
    expect(storableJson("é 日本 😀")).toEqual({ text: '"é 日本 😀"', error: null });
  });

  test("nothing returned is no result and no error", () => {
    expect(storableJson(undefined)).toEqual({ text: null, error: null });
  });

  test.each([
    ["a\u0000b", "a\ufffdb"],
    ["\ud83d", "\ufffd"],
    ["\ude00", "\ufffd"],
    ["\ud83d\ude00", "\ud83d\ude00"],
    ["\\u0000", "\\u0000"],
    ["\\\u0000", "\\\ufffd"],
    ["\\\\ud83d", "\\\\ud83d"],
  ])("the text %j is stored as %j", (given, kept) => {
    expect(JSON.parse(storableJson({ text: given }).text ?? "")).toEqual({ text: kept });
  });

  test("a member's name is mended as its value is", () => {
    expect(storableJson({ "\u0000k": 1 }).text).toBe('{"\ufffdk":1}');
  });

  test("what JSON has no word for becomes null, and a Map an empty object", () => {
    const value = {
      a: Number.NaN,
      b: Number.POSITIVE_INFINITY,
      c: undefined,
      e: new Date(Number.NaN),
      f: new Map([[1, 2]]),
      g: -0,
    };
    expect(storableJson(value).text).toBe('{"a":null,"b":null,"e":null,"f":{},"g":0}');
  });

  test.each([
    ["a BigInt", { d: 1n }, /BigInt/],
    ["a cycle", cyclic(), /circular/],
    ["a function", () => 1, /a function is not JSON/],
    [
      "a getter that throws",
      {
        get x() {
          throw new Error("no\u0000");
        },
      },
      /no\ufffd/,
    ],
    ["a Proxy whose traps throw", hostileProxy(), /the result cannot be stored/],
    ["too much depth", deep(1_000), /nested deeper/],
    ["more depth than the stack", deep(200_000), /the result cannot be stored/],
    ["too much text", "x".repeat(MAX_RESULT_BYTES), /262146 bytes/],
    ["too many bytes in few characters", "é".repeat(MAX_RESULT_BYTES / 2), /bytes of JSON/],
  ])("%s gives a reason instead of a text", (_, value, reason) => {
    const stored = storableJson(value);
    expect(stored.text).toBeNull();
    expect(stored.error).toMatch(reason);
  });

  test("the largest result is kept", () => {
    expect(storableJson("x".repeat(MAX_RESULT_BYTES - 2)).error).toBeNull();
  });
});

describe("a text that PostgreSQL takes", () => {
  test("NUL and halves of pairs are replaced, pairs are not", () => {
    expect(storableText("a\u0000\ud83d😀\ude00")).toBe("a\ufffd\ufffd😀\ufffd");
  });

  test("a long text is cut between characters and says so", () => {
    const cut = storableText("😀".repeat(100), 50);
    expect(cut).toMatch(/^(😀)+… \(cut\)$/u);
    expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(50);
  });
});

function cyclic(): object {
  const value: Record<string, unknown> = {};
  value.self = value;
  return value;
}

function deep(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = [value];
  return value;
}

function hostileProxy(): object {
  const fail = () => {
    throw new Error("trapped");
  };
  return new Proxy({}, { get: fail, ownKeys: fail, getPrototypeOf: fail, has: fail });
}
