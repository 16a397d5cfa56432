import { describe, expect, test } from "vitest";
import { compileTemplate } from "../../runtime/config/expression-template.ts";
import { describeKeyTemplate, evaluateKey } from "../../runtime/config/job-keys.ts";
import type { Json } from "../../runtime/core/json.ts";
import { declare, find, load } from "./project-files.ts";

/** As it stands in YAML, without being a template literal's placeholder. */
const expression = (text: string): string => `$\u007b{ ${text} }}`;

const PAYLOAD: Json = {
  customer: 7,
  ratio: 0.5,
  name: "Ana",
  open: true,
  none: null,
  items: [{ sku: "a" }, { sku: "b" }],
  "odd name": "x",
};

describe("a text with expressions", () => {
  test("gives text, numbers and booleans of the payload as text", () => {
    const given: Readonly<Record<string, string>> = {
      plain: "plain",
      [`customer-${expression("payload.customer")}`]: "customer-7",
      [`${expression("payload.ratio")}/${expression("payload.open")}`]: "0.5/true",
      [expression("payload['odd name']")]: "x",
      [expression("payload.customer > 5 ? 'large' : 'small'")]: "large",
      [expression("payload.?region.orValue('none')")]: "none",
      [expression("payload.items.exists(item, item.sku == 'b')")]: "true",
      [expression("payload.name.matches('^A[a-z]+$')")]: "true",
      [expression("{'a': {'b': '}}'}}.a.b")]: "}}",
      [expression("payload.customer + 1")]: "8",
    };
    for (const [source, text] of Object.entries(given)) {
      expect({ source, ...evaluateKey(source, PAYLOAD) }).toEqual({ source, ok: true, text });
    }
  });

  test("gives no key where the payload has no such value, or one that is no text", () => {
    const refused: Readonly<Record<string, RegExp>> = {
      "payload.missing": /No such key: missing/,
      "payload.none": /found null/,
      "payload.items": /found a list/,
      payload: /found an object/,
      "payload.name + 1": /no such overload/,
      "''": /found an empty text/,
      "payload.constructor": /No such key: constructor/,
      "payload.__proto__": /No such key/,
    };
    for (const [source, message] of Object.entries(refused)) {
      expect({ source, ...evaluateKey(expression(source), PAYLOAD) }).toEqual({
        source,
        ok: false,
        message: expect.stringMatching(message),
      });
    }
    expect(evaluateKey(expression("payload.name"), { name: "x".repeat(401) })).toMatchObject({ ok: false });
    expect(evaluateKey(expression("payload.name"), { name: "a\u0000" })).toMatchObject({ ok: false });
  });

  test("is refused when it is written, where it cannot be meant or could take long", () => {
    const refused: Readonly<Record<string, RegExp>> = {
      "payload.": /got EOF/,
      "paylod.x": /Unknown variable: paylod/,
      "nothing(payload)": /nothing/,
      "1 + 'a'": /no such overload/,
      "[1, 2]": /gives list<int>/,
      "payload.name.matches(payload.pattern)": /written out as text/,
      "payload.name.matches('(a+)+$')": /exponential time/,
      "payload.items.all(x, payload.items.exists(y, x == y))": /within another/,
      [Array.from({ length: 5 }, () => "payload.items.all(x, true)").join(" && ")]: /at most 4 passes/,
      ["payload.x".padEnd(1_001, " ").concat("+ 1")]: /at most 1000 characters/,
      [Array.from({ length: 300 }, () => "1").join("+")]: /limit|nodes|depth/i,
    };
    for (const [source, message] of Object.entries(refused)) {
      expect({ source, message: describeKeyTemplate(`x-${expression(source)}`) }).toEqual({
        source,
        message: expect.stringMatching(message),
      });
    }
    expect(describeKeyTemplate(`x-${expression("payload.x").slice(0, -2)}`)).toMatch(/expected }} after/);
  });

  test("tries no pattern on a very long text", () => {
    const source = expression("payload.name.matches('^a*b?a*$')");
    expect(evaluateKey(source, { name: "a".repeat(9_000) })).toMatchObject({ ok: false });
    expect(evaluateKey(source, { name: "aa" })).toEqual({ ok: true, text: "true" });
  });

  test("knows only its variables", () => {
    expect(compileTemplate(expression("event.value"), ["event"])).toMatchObject({ ok: true });
    expect(compileTemplate(expression("event.value"), ["payload"])).toMatchObject({ ok: false });
  });
});

describe("a job's keys", () => {
  const job = (spec: string): ReturnType<typeof load> => load(declare("Job", "x", `{ handler: x.ts, ${spec} }`));

  test("are read with their expressions", () => {
    const { state, problems } = job(
      `concurrencyKey: "c-${expression("payload.c")}", unique: { key: "${expression("payload.u")}", for: 1h, until: started }`,
    );
    expect(problems).toEqual([]);
    expect(find(state?.objects, "Job", "x").spec).toMatchObject({
      concurrencyKey: `c-${expression("payload.c")}`,
      unique: { key: expression("payload.u"), forMs: 3_600_000, until: "started" },
    });
  });

  test("count until the job has finished when nothing else is said", () => {
    const unique = (text: string) => find(job(`unique: ${text}`).state?.objects, "Job", "x").spec.unique;
    expect(unique("{ key: one }")).toEqual({ key: "one", forMs: null, until: "finished" });
    expect(unique("{ key: one, for: 1h }")).toEqual({ key: "one", forMs: 3_600_000, until: null });
  });

  test("are refused with their place when an expression is not valid", () => {
    const { problems } = job(`concurrencyKey: "${expression("paylod.c")}", unique: { key: "${expression("1 +")}" }`);
    expect(problems.map(({ code, path }) => [code, path])).toEqual([
      ["TURNO_CONFIG_EXPRESSION", "/spec/concurrencyKey"],
      ["TURNO_CONFIG_EXPRESSION", "/spec/unique/key"],
    ]);
  });

  test("are worked out for the payload of a schedule, which is refused when it gives none", () => {
    const text = `${declare("Job", "x", `{ handler: x.ts, concurrencyKey: "c-${expression("payload.c")}" }`)}---\n`;
    const good = load(text + declare("Schedule", "s", "{ job: x, every: 5m, payload: { c: 3 } }"));
    expect(find(good.state?.objects, "Schedule", "s").spec.concurrencyKey).toBe("c-3");
    const bad = load(text + declare("Schedule", "s", "{ job: x, every: 5m, payload: {} }"));
    expect(bad.problems).toMatchObject([{ code: "TURNO_CONFIG_EXPRESSION", path: "/spec/payload" }]);
    expect(bad.problems[0]?.message).toMatch(/no concurrency key .* for Job\/x: No such key: c/);
  });
});
