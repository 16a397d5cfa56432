import { expect, test } from "vitest";
import { sortProblems } from "../../runtime/config/problems.ts";
import { formatReport, type ReportFormat } from "../../runtime/config/report.ts";
import { declare, load, PROJECT } from "./project-files.ts";

const { problems, files } = load(
  `${declare("Policy", "p", "{ retry: { maxAttemps: 5 } }")}---\n${declare("Queue", "slow", "{}")}`,
);
const report = (format: ReportFormat): string =>
  formatReport(problems, format, { files, colour: false, version: "1.2.3" });

test("text has the place, a caret under the column, the hint and a summary", () => {
  expect(
    report("text"),
  ).toBe(`turno.d/a.yaml:4:18 error the field "maxAttemps" is not known to this version [TURNO_CONFIG_UNKNOWN_KEY]
    4 | spec: { retry: { maxAttemps: 5 } }
      |                  ^
        did you mean maxAttempts?

turno.d/a.yaml:8:19 warning no worker takes from the queue slow; its jobs wait [TURNO_CONFIG_UNSERVED_QUEUE]
    8 | metadata: { name: slow }
      |                   ^
        Add it to spec.runtime.worker.queues of the project.

1 error, 1 warning
`);
  expect(formatReport([], "text", { files, colour: false, version: "0" })).toBe("no problems\n");
});

test("json has the shape of the contract", () => {
  expect(JSON.parse(report("json"))).toEqual({ ok: false, problems });
  expect(problems[0]).toEqual({
    code: "TURNO_CONFIG_UNKNOWN_KEY",
    severity: "error",
    file: "turno.d/a.yaml",
    line: 4,
    column: 18,
    path: "/spec/retry/maxAttemps",
    message: 'the field "maxAttemps" is not known to this version',
    hint: "maxAttempts",
  });
  expect(JSON.parse(formatReport([], "json", { files, colour: false, version: "0" }))).toEqual({
    ok: true,
    problems: [],
  });
});

test("github has one annotation a problem, with its escapes", () => {
  expect(report("github").split("\n")[0]).toBe(
    '::error file=turno.d/a.yaml,line=4,col=18,title=TURNO_CONFIG_UNKNOWN_KEY::the field "maxAttemps" is not known to this version (did you mean maxAttempts?)',
  );
  const [first] = problems;
  if (first === undefined) throw new Error("expected a problem");
  const odd = { ...first, file: "a,b:c.yaml", message: "100%\nsure", hint: null };
  expect(formatReport([odd], "github", { files, colour: false, version: "0" })).toBe(
    "::error file=a%2Cb%3Ac.yaml,line=4,col=18,title=TURNO_CONFIG_UNKNOWN_KEY::100%25%0Asure\n",
  );
});

test("sarif is a 2.1.0 log with rules, levels and regions", () => {
  const log = JSON.parse(report("sarif"));
  expect(log.version).toBe("2.1.0");
  const [run] = log.runs;
  expect(run.tool.driver).toMatchObject({ name: "turno", version: "1.2.3" });
  expect(run.results).toHaveLength(2);
  expect(run.results[1]).toMatchObject({ level: "warning", ruleId: "TURNO_CONFIG_UNSERVED_QUEUE" });
  expect(run.tool.driver.rules[run.results[0].ruleIndex].id).toBe(run.results[0].ruleId);
  expect(run.results[0].locations[0].physicalLocation).toEqual({
    artifactLocation: { uri: "turno.d/a.yaml" },
    region: { startLine: 4, startColumn: 18 },
  });
});

test("no format shows a literal secret, not even as the excerpt of another problem on its line", () => {
  const project = PROJECT.replace(
    "UTC }",
    'UTC, runtime: { database: { url: "postgres://u:hunter2@db/x", poolsize: 3 } } }',
  );
  const loaded = load("# nothing\n", { project });
  expect(loaded.problems.map(({ code }) => code)).toContain("TURNO_CONFIG_UNKNOWN_KEY");
  for (const format of ["text", "json", "github", "sarif"] as const) {
    const text = formatReport(loaded.problems, format, { files: loaded.files, colour: true, version: "0" });
    expect(text).toContain("TURNO_CONFIG_SECRET");
    expect(text).not.toContain("hunter2");
  }
});

test("control characters of a file don't reach the terminal, and long lines are cut around the column", () => {
  const long = load(declare("Queue", "default", `{ concurrency: 1, ${" ".repeat(500)} nonsense: "\u009b31m" }`));
  const text = formatReport(long.problems, "text", { files: long.files, colour: false, version: "0" });
  expect(text).not.toContain("\u009b");
  expect(Math.max(...text.split("\n").map((line) => line.length))).toBeLessThan(200);
  const [, excerpt = "", caret = ""] = text.split("\n");
  expect(excerpt.slice(caret.indexOf("^")).startsWith("nonsense")).toBe(true);
});

test("of one file a hundred problems are told, and how many more there are, however often they are sorted", () => {
  const { problems: many } = load(`a: b\n${"a: b\n".repeat(3_000)}`);
  expect(many).toHaveLength(101);
  expect(many.at(-1)).toMatchObject({ code: "TURNO_CONFIG_MORE", severity: "error" });
  expect(many.at(-1)?.message).toMatch(/^29\d\d more problems in this file are not shown$/);
  expect(sortProblems([...many])).toEqual(many);
});

test("a forgotten line between two documents is what repeated envelope keys hint at", () => {
  const { problems: found } = load(`${declare("Queue", "a", "{}")}${declare("Queue", "b", "{}")}`);
  expect(found.find(({ path }) => path === "/kind")?.hint).toContain("---");
  expect(found.find(({ path }) => path === "/spec")?.hint).toBe("Keep one of the two.");
});
