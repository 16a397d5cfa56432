import { describe, expect, test } from "vitest";
import { LOAD_LIMITS } from "../../runtime/config/limits.ts";
import { formatReport } from "../../runtime/config/report.ts";
import { declare, find, load, PROJECT, places } from "./project-files.ts";

const QUEUE = "apiVersion: turno/v1\nkind: Queue\nmetadata: { name: default }\nspec: { concurrency: 4 }\n";

describe("C01: words that YAML 1.1 read as booleans", () => {
  test("stay text as a name and are refused where a boolean is expected", () => {
    const { state, problems } = load(
      "apiVersion: turno/v1\nkind: Queue\nmetadata: { name: no, labels: { norway: NO } }\nspec:\n  suspend: no\n",
    );
    expect(state).toBeNull();
    expect(places(problems)).toEqual(["turno.d/a.yaml:5:12 TURNO_CONFIG_TYPE"]);
    expect(problems[0]).toMatchObject({ path: "/spec/suspend", hint: "false" });
    expect(problems[0]?.message).toContain("true or false");
  });

  test("are accepted as the texts they are", () => {
    const project = PROJECT.replace("UTC }", "UTC, runtime: { worker: { queues: [{ name: no }, { name: on }] } } }");
    const { state } = load("apiVersion: turno/v1\nkind: Queue\nmetadata: { name: no, labels: { norway: NO } }\n", {
      project,
    });
    expect(find(state?.objects, "Queue", "no").labels).toEqual({ norway: "NO" });
  });

  test("a number or a boolean is no name", () => {
    for (const name of ["1", "true", "null", "1.5"]) {
      expect(load(declare("Queue", name, "{}")).state).toBeNull();
    }
  });
});

describe("C03: keys that change prototypes", () => {
  test("are refused with their line, and no prototype changes", () => {
    const { state, problems } = load(
      `apiVersion: turno/v1
kind: Job
metadata: { name: x }
spec:
  handler: builtin/command
  settings:
    base: &b
      __proto__: { isAdmin: true }
    payload:
      <<: *b
      constructor: { prototype: { isAdmin: true } }
`,
    );
    expect(state).toBeNull();
    expect(places(problems)).toEqual([
      "turno.d/a.yaml:8:7 TURNO_CONFIG_KEY",
      "turno.d/a.yaml:10:7 TURNO_CONFIG_KEY",
      "turno.d/a.yaml:11:7 TURNO_CONFIG_KEY",
    ]);
    expect(({} as Record<string, unknown>).isAdmin).toBeUndefined();
  });

  test("a key named << is refused, never kept", () => {
    const { problems } = load(declare("Job", "x", '{ handler: builtin/command, settings: { "<<": { a: 1 } } }'));
    expect(places(problems)).toEqual(["turno.d/a.yaml:4:47 TURNO_CONFIG_KEY"]);
  });
});

describe("C05: many aliases", () => {
  const jobs = (count: number, settings: string): string =>
    `apiVersion: turno/v1
kind: Job
metadata: { name: x }
spec:
  handler: builtin/command
  settings:
    first: &x ${settings}
${Array.from({ length: count }, (_, index) => `    s${index}: *x\n`).join("")}`;

  test("150 harmless aliases are read", () => {
    const { state, problems } = load(jobs(150, "{ retries: 3 }"));
    expect(problems).toEqual([]);
    expect(Object.keys(find(state?.objects, "Job", "x").spec.settings)).toHaveLength(151);
    expect(find(state?.objects, "Job", "x").spec.settings.s149).toEqual({ retries: 3 });
  });

  test("what expands beyond a limit is refused by name of the limit, never read as empty", () => {
    const { state, problems } = load(jobs(5_000, `[${"1,".repeat(100)}]`));
    expect(state).toBeNull();
    expect(problems.map(({ code }) => code)).toEqual(["TURNO_CONFIG_LIMIT"]);
    expect(problems[0]?.message).toContain("100000 values after expanding aliases");
  });

  test("text is counted by its expanded size", () => {
    const { problems } = load(jobs(200, `"${"x".repeat(20_000)}"`));
    expect(problems.map(({ code }) => code)).toEqual(["TURNO_CONFIG_LIMIT"]);
  });

  test("a bomb of nested aliases is refused without expanding it", () => {
    const levels = Array.from({ length: 30 }, (_, at) => {
      const below = at === 0 ? "lol" : `*l${at - 1}`;
      return `    l${at}: &l${at} [${Array.from({ length: 10 }, () => below).join(", ")}]\n`;
    });
    const { problems } = load(
      `apiVersion: turno/v1\nkind: Job\nmetadata: { name: x }\nspec:\n  handler: builtin/command\n  settings:\n${levels.join("")}`,
    );
    expect(problems.map(({ code }) => code)).toEqual(["TURNO_CONFIG_LIMIT"]);
  });

  test("defaults filled in at one place of an alias do not appear at another", () => {
    const { state } = load(
      `${declare("Job", "x", "{ handler: builtin/command }")}---
${declare("Schedule", "s", "{ job: x, every: &e { interval: 40s }, payload: { copy: *e } }")}`,
    );
    const { spec } = find(state?.objects, "Schedule", "s");
    expect(spec.timing).toEqual({ kind: "every", intervalMs: 40_000, from: "epoch" });
    expect(spec.payload).toEqual({ copy: { interval: "40s" } });
  });
});

describe("C07: byte-order marks, line ends, UTF-16", () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  const declared = (content: Uint8Array): unknown => load(content).state?.objects;

  test("a UTF-8 mark and CRLF change nothing", () => {
    const plain = declared(bytes(QUEUE));
    expect(plain).toHaveLength(1);
    expect(declared(bytes(`\ufeff${QUEUE}`))).toEqual(plain);
    expect(declared(bytes(`\ufeff${QUEUE.replaceAll("\n", "\r\n")}`))).toEqual(plain);
    expect(load(`\ufeff${QUEUE}`).state?.objects).toEqual(plain);
  });

  test("positions are the same with mark and CRLF", () => {
    const broken = QUEUE.replace("concurrency", "concurency");
    const expected = ["turno.d/a.yaml:4:9 TURNO_CONFIG_UNKNOWN_KEY"];
    expect(places(load(bytes(broken)).problems)).toEqual(expected);
    expect(places(load(bytes(`\ufeff${broken.replaceAll("\n", "\r\n")}`)).problems)).toEqual(expected);
  });

  test("UTF-16 is refused by name, with and without its mark", () => {
    const little = Buffer.from(QUEUE, "utf16le");
    for (const content of [
      Buffer.concat([Buffer.from([0xff, 0xfe]), little]),
      little,
      Buffer.from([0xfe, 0xff, 0, 0x61]),
    ]) {
      const { state, problems } = load(new Uint8Array(content));
      expect(state).toBeNull();
      expect(problems.map(({ code, message }) => [code, message])).toEqual([
        ["TURNO_CONFIG_ENCODING", "expected UTF-8, found UTF-16"],
      ]);
    }
  });

  test("other bytes that are no UTF-8 are refused with their line", () => {
    const content = Buffer.concat([Buffer.from("a: b\n"), Buffer.from([0xe9, 0x0a])]);
    expect(places(load(new Uint8Array(content)).problems)).toEqual(["turno.d/a.yaml:2:1 TURNO_CONFIG_ENCODING"]);
  });
});

describe("C09: repeated keys and objects", () => {
  test("a repeated key is refused and both lines are named", () => {
    const { state, problems } = load(
      "apiVersion: turno/v1\nkind: Policy\nmetadata: { name: p }\nspec:\n  retry: { maxAttempts: 5 }\n  timeout: 5m\n  retry: { maxAttempts: 6 }\n",
    );
    expect(state).toBeNull();
    expect(places(problems)).toEqual(["turno.d/a.yaml:7:3 TURNO_CONFIG_DUPLICATE_KEY"]);
    expect(problems[0]?.message).toContain("line 5");
  });

  test("one name in two files is refused and both places are named", () => {
    const schedule = declare("Schedule", "nightly", "{ job: x, cron: 0 2 * * * }");
    const { state, problems } = load(`${declare("Job", "x", "{ handler: builtin/command }")}---\n${schedule}`, {
      others: { "turno.d/b.yaml": schedule },
    });
    expect(state).toBeNull();
    expect(places(problems)).toEqual(["turno.d/b.yaml:3:19 TURNO_CONFIG_DUPLICATE_OBJECT"]);
    expect(problems[0]?.message).toContain("turno.d/a.yaml:8");
  });

  test("one name of two kinds is fine", () => {
    expect(load(`${declare("Queue", "default", "{}")}---\n${declare("Policy", "default", "{}")}`).problems).toEqual([]);
  });
});

describe("C11: misspelt options", () => {
  test("are refused with their path and the nearest known key", () => {
    const { problems } = load(
      `${declare("Policy", "p", "{ retry: { maxAttemps: 5, backof: exponential } }")}---
${declare("Schedule", "s", "{ job: p, cron: 0 2 * * *, timezone: UTC }")}---
${declare("Job", "p", "{ handler: builtin/command }")}`,
    );
    expect(problems.map(({ code, path, hint }) => [code, path, hint])).toEqual([
      ["TURNO_CONFIG_UNKNOWN_KEY", "/spec/retry/maxAttemps", "maxAttempts"],
      ["TURNO_CONFIG_UNKNOWN_KEY", "/spec/retry/backof", "backoff"],
      ["TURNO_CONFIG_UNKNOWN_KEY", "/spec/timezone", "timeZone"],
    ]);
  });

  test("a misspelt required field is one problem", () => {
    const { problems } = load(
      `${declare("Schedule", "s", "{ jbo: p, cron: 0 2 * * * }")}---\n${declare("Schedule", "t", "{ job: p, crn: 0 2 * * * }")}---\n${declare("Job", "p", "{ handler: builtin/command }")}`,
    );
    expect(problems.map(({ path, hint }) => [path, hint])).toEqual([
      ["/spec/jbo", "job"],
      ["/spec/crn", "cron"],
    ]);
  });

  test("are refused at every level: envelope, metadata, lists", () => {
    const project = PROJECT.replace("UTC }", "UTC, runtime: { worker: { queues: [{ name: default, slots: 4 }] } } }");
    const { problems } = load(
      "apiVersion: turno/v1\nkind: Queue\nmetadata: { name: default, label: {} }\nstatus: {}\n",
      { project },
    );
    expect(problems.map(({ path }) => path)).toEqual([
      "/metadata/label",
      "/status",
      "/spec/runtime/worker/queues/0/slots",
    ]);
  });
});

describe("C13: keys that are not text, look-alikes and cycles", () => {
  const settings = (text: string): readonly string[] =>
    places(
      load(
        `apiVersion: turno/v1\nkind: Job\nmetadata: { name: x }\nspec:\n  handler: builtin/command\n  settings:\n${text}`,
      ).problems,
    );

  test('1 and "1" are one key', () => {
    expect(settings('    env: { 1: a, "1": b }\n')).toEqual(["turno.d/a.yaml:7:18 TURNO_CONFIG_DUPLICATE_KEY"]);
  });

  test("a list or mapping as a key is refused", () => {
    expect(settings("    ? [a, b]\n    : 1\n")).toEqual(["turno.d/a.yaml:7:7 TURNO_CONFIG_KEY"]);
    expect(settings("    a: {{ x }}\n")).toEqual(["turno.d/a.yaml:7:9 TURNO_CONFIG_KEY"]);
  });

  test("true and null as keys are the texts", () => {
    const { state } = load(declare("Job", "x", "{ handler: builtin/command, settings: { true: x, null: y } }"));
    expect(find(state?.objects, "Job", "x").spec.settings).toEqual({ true: "x", null: "y" });
  });

  test("names with composed and decomposed letters are both refused, and so is a decomposed key", () => {
    expect(load(declare("Queue", "caf\u00e9", "{}")).state).toBeNull();
    expect(load(declare("Queue", "cafe\u0301", "{}")).state).toBeNull();
    expect(settings("    cafe\u0301: 1\n    caf\u00e9: 2\n")).toEqual(["turno.d/a.yaml:7:5 TURNO_CONFIG_KEY"]);
  });

  test("an anchor that holds itself is refused", () => {
    expect(settings("    x: &a [*a]\n")).toEqual(["turno.d/a.yaml:7:12 TURNO_CONFIG_ALIAS"]);
    expect(settings("    x: &a { b: { c: *a } }\n")).toEqual(["turno.d/a.yaml:7:21 TURNO_CONFIG_ALIAS"]);
  });

  test("an alias without an anchor is refused", () => {
    expect(settings("    x: *nobody\n")).toEqual(["turno.d/a.yaml:7:8 TURNO_CONFIG_ALIAS"]);
  });
});

describe("C15: files that are being written", () => {
  test("an empty file is an error, so nothing is removed", () => {
    for (const content of ["", "\n\n", "  \n", "\ufeff"]) {
      const { state, problems } = load(content);
      expect(state).toBeNull();
      expect(problems.map(({ code }) => code)).toEqual(["TURNO_CONFIG_EMPTY"]);
    }
  });

  test("a file cut in the middle of a document is an error, and other files get no false problems", () => {
    const jobs = declare("Job", "x", "{ handler: builtin/command }");
    const cut = jobs.slice(0, jobs.length - 5);
    const { state, problems } = load(cut, {
      others: { "turno.d/b.yaml": declare("Schedule", "s", "{ job: x, cron: 0 2 * * * }") },
    });
    expect(state).toBeNull();
    expect(new Set(problems.map(({ file }) => file))).toEqual(new Set(["turno.d/a.yaml"]));
  });

  test("a file of comments alone is a warning", () => {
    const { state, problems } = load("# nothing yet\n");
    expect(state?.objects).toEqual([]);
    expect(problems.map(({ code, severity }) => [code, severity])).toEqual([["TURNO_CONFIG_EMPTY", "warning"]]);
  });
});

test("C17: editor litter that an include does not match is no document", () => {
  const { state, problems } = load(QUEUE, {
    others: { "turno.d/a.yaml~": "garbage: [", "turno.d/.a.yaml.swp": "\u0000", "turno.d/4913": "" },
  });
  expect(problems).toEqual([]);
  expect(state?.objects).toHaveLength(1);
});

describe("what else YAML can hide", () => {
  const settings = (text: string): readonly string[] =>
    load(declare("Job", "x", `{ handler: builtin/command, settings: ${text} }`)).problems.map(({ code }) => code);

  test("tags are refused, known or not", () => {
    expect(settings("{ a: !!js/function 'x' }")).toEqual(["TURNO_CONFIG_TAG"]);
    expect(settings("{ a: !custom x }")).toEqual(["TURNO_CONFIG_TAG"]);
    expect(settings("{ a: !!binary aGk= }")).toEqual(["TURNO_CONFIG_TAG"]);
    expect(settings("{ a: !!str 5 }")).toEqual(["TURNO_CONFIG_TAG"]);
    expect(load(`%YAML 1.1\n---\n${QUEUE}`).problems.map(({ code }) => code)).toEqual(["TURNO_CONFIG_TAG"]);
  });

  test("numbers that JSON cannot carry exactly are refused", () => {
    expect(settings("{ a: 9007199254740993 }")).toEqual(["TURNO_CONFIG_NUMBER"]);
    expect(settings("{ a: 1970670598291982291, b: -9007199254740993 }")).toEqual([
      "TURNO_CONFIG_NUMBER",
      "TURNO_CONFIG_NUMBER",
    ]);
    expect(settings("{ a: .nan, b: .inf, c: 1e400 }")).toHaveLength(3);
    expect(settings("{ a: 9007199254740991, b: 0x10, c: -0.0, d: 1e3 }")).toEqual([]);
  });

  test("text that the database cannot store is refused", () => {
    expect(settings('{ a: "x\\0y" }')).toEqual(["TURNO_CONFIG_TEXT"]);
    expect(settings('{ a: "\\ud83d" }')).toEqual(["TURNO_CONFIG_TEXT"]);
    expect(settings('{ "\\0k": 1 }')).toEqual(["TURNO_CONFIG_KEY"]);
    expect(settings('{ a: "\ud83d\ude00" }')).toEqual([]);
  });

  test("depth and size have limits, and nesting that would overflow the stack is refused before it is read", () => {
    const nested = (levels: number): string => `${"[".repeat(levels)}1${"]".repeat(levels)}`;
    expect(settings(nested(50).replace(/^/, "{ a: ").concat(" }"))).toEqual([]);
    expect(settings(`{ a: ${nested(64)} }`)).toEqual(["TURNO_CONFIG_LIMIT"]);
    const before = performance.now();
    for (const text of ["[", "- ", "{a: ", "? "].map((part) => part.repeat(LOAD_LIMITS.fileBytes / part.length))) {
      expect(load(text).problems).toMatchObject([{ code: "TURNO_CONFIG_LIMIT" }]);
    }
    expect(performance.now() - before).toBeLessThan(1_000);
    for (const bomb of ["[", "- ", "[? "]) {
      const { problems } = load(bomb.repeat(Math.floor(260_000 / bomb.length)));
      expect(problems.map(({ code }) => code)).toEqual(["TURNO_CONFIG_LIMIT"]);
    }
    expect(load("#".repeat(256 * 1024 + 1)).problems.map(({ code }) => code)).toEqual(["TURNO_CONFIG_LIMIT"]);
  });

  test("one syntax error is one problem, with the caret under it", () => {
    const { files, problems } = load("apiVersion: turno/v1\nkind: Queue\nmetadata: { name: a: b\n");
    expect(problems).toHaveLength(1);
    const text = formatReport(problems, "text", { files, colour: false, version: "0" });
    expect(text).toMatch(/^ {4}\d \| .*\n {5} \| +\^$/m);
  });

  test("documents behind a broken one are still checked", () => {
    const { problems } = load(`a: [\n---\n${declare("Queue", "default", "{ concurrency: 0 }")}`);
    expect(problems.map(({ code }) => code)).toEqual(["TURNO_CONFIG_SYNTAX", "TURNO_CONFIG_VALUE"]);
  });
});
