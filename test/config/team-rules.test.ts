import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { loadProject } from "../../runtime/config/load-project.ts";
import { RULES_FILE } from "../../runtime/core/project-files.ts";

const PROJECT = `apiVersion: turno/v1
kind: Project
metadata: { name: test }
spec: { timeZone: UTC }
`;
const OBJECTS = `apiVersion: turno/v1
kind: Job
metadata: { name: greet, labels: { owner: ops } }
spec: { handler: greet.ts }
---
apiVersion: turno/v1
kind: Schedule
metadata: { name: nightly, labels: { owner: ops, weight: heavy } }
spec: { job: greet, cron: "30 2 * * *" }
---
apiVersion: turno/v1
kind: Schedule
metadata: { name: hourly }
spec: { job: greet, cron: "7 * * * *" }
`;

const rule = (text: string) => `apiVersion: turno/v1
kind: Rules
spec:
  rules:
    - name: r
      message: Do it right.
      ${text}
`;

function check(rules: string) {
  const files = new Map([
    ["turno.yaml", PROJECT],
    ["turno.d/a.yaml", OBJECTS],
    [RULES_FILE, rules],
  ]);
  const { state, problems } = loadProject(files);
  const told = problems.map(
    ({ code, severity, file, line, message }) => `${severity} ${code} ${file}:${line} ${message}`,
  );
  return { refused: state === null, told, hints: problems.map(({ hint }) => hint) };
}

it("an object that breaks a rule is refused at its own line, in the words of the rule, with the rule's place", () => {
  const checked = check(rule("require: has(object.metadata.labels.owner)"));
  expect(checked).toEqual({
    refused: true,
    told: ["error TURNO_RULE_BROKEN turno.d/a.yaml:13 Schedule/hourly: Do it right."],
    hints: ["rule r (turno.rules.yaml:5)"],
  });
});

it("a rule that is a warning keeps nothing back", () => {
  const { refused, told } = check(rule("require: has(object.metadata.labels.owner)\n      severity: warning"));
  expect(refused).toBe(false);
  expect(told).toEqual(["warning TURNO_RULE_BROKEN turno.d/a.yaml:13 Schedule/hourly: Do it right."]);
});

it("a rule is about its kinds and labels, and sees defaults", () => {
  const about = (text: string) => check(rule(`${text}\n      require: "false"`)).told.map((line) => line.split(" ")[3]);
  expect(about("kinds: [Schedule]")).toEqual(["Schedule/nightly:", "Schedule/hourly:"]);
  expect(about("labels: { weight: heavy }")).toEqual(["Schedule/nightly:"]);
  expect(about("kinds: [Project]")).toEqual(["Project/test:"]);
  expect(about("kinds: [Queue]")).toEqual([]);
  expect(check(rule(`kinds: [Schedule]\n      require: object.spec.concurrencyPolicy == "Forbid"`)).told).toEqual([]);
  expect(check(rule(`kinds: [Schedule]\n      require: '!object.spec.cron.startsWith("30 2 ")'`)).told).toEqual([
    "error TURNO_RULE_BROKEN turno.d/a.yaml:8 Schedule/nightly: Do it right.",
  ]);
});

it("a rule without an answer says why, and for which object", () => {
  expect(check(rule("kinds: [Job]\n      require: object.spec.nothing.there == 1")).told).toEqual([
    "error TURNO_RULE_INVALID turno.d/a.yaml:3 Job/greet: rule r (turno.rules.yaml:5) gives no answer: No such key: nothing",
  ]);
  expect(check(rule("kinds: [Job]\n      require: object.spec.handler")).told).toEqual([
    'error TURNO_RULE_INVALID turno.d/a.yaml:3 Job/greet: rule r (turno.rules.yaml:5) gives no answer: expected true or false, found the text "greet.ts"',
  ]);
});

it("rules that cannot be used are problems of their own file", () => {
  const { refused, told } = check(rule('require: "object.spec. =="'));
  expect(refused).toBe(true);
  expect(told[0]).toMatch(/^error TURNO_RULE_INVALID turno\.rules\.yaml:7 /);
  expect(check(rule("require: nobody.spec")).told[0]).toMatch(/turno\.rules\.yaml:7 .*nobody/);
  expect(check(rule("requires: x")).told[0]).toMatch(/turno\.rules\.yaml:\d+ .*requires/);
  expect(check("kind: Rule\n").told).toEqual([
    'error TURNO_CONFIG_UNKNOWN_KIND turno.rules.yaml:1 expected a document of kind Rules, found the text "Rule"',
  ]);
  expect(check("kind: [\n").refused).toBe(true);
  expect(check(`${rule('require: "true"')}---\n${rule('require: "true"')}`).told).toEqual([]);
  expect(check(`${rule('require: "true"')}    - { name: r, message: x, require: "true" }\n`).told).toEqual([
    "error TURNO_RULE_INVALID turno.rules.yaml:8 expected each rule to have a name of its own, found r twice",
  ]);
});

it("the rules of the documentation can be used, and judge as it says", () => {
  const page = readFileSync(join(import.meta.dirname, "..", "..", "docs", "rules.md"), "utf8");
  const [, example = ""] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  expect(check(example).told).toEqual([
    "warning TURNO_RULE_BROKEN turno.d/a.yaml:3 Job/greet: Say how long a job may take.",
    "error TURNO_RULE_BROKEN turno.d/a.yaml:13 Schedule/hourly: Every Schedule and every Job has an owner label.",
  ]);
});
