import { describe, expect, it } from "vitest";
import { documentAt, readLintComments } from "../../runtime/config/lint-comments.ts";
import { lintProject } from "../../runtime/config/lint-project.ts";
import { loadProject } from "../../runtime/config/load-project.ts";

const PROJECT = `apiVersion: turno/v1
kind: Project
metadata: { name: test }
spec: { timeZone: Europe/Berlin }
---
apiVersion: turno/v1
kind: Job
metadata: { name: a }
spec: { handler: a.ts }
`;
const schedule = (name: string, cron: string, before = "") => `${before}apiVersion: turno/v1
kind: Schedule
metadata: { name: ${name} }
spec:
  job: a
  cron: "${cron}"
`;

function lint(text: string) {
  const files = new Map([
    ["turno.yaml", PROJECT],
    ["turno.d/s.yaml", text],
  ]);
  const { state, problems } = loadProject(files);
  expect(problems.filter(({ severity }) => severity === "error")).toEqual([]);
  if (state === null) throw new Error("the project is not valid");
  const report = lintProject({ state, files, now: new Date("2026-12-01T00:00:00Z"), pileUp: 5 });
  return {
    problems: report.problems.map(({ code, line, column, message }) => ({ code, line, column, message })),
    ignored: report.ignored.map(({ problem, reason }) => ({ code: problem.code, line: problem.line, reason })),
  };
}

describe("lint of a project", () => {
  it("places each finding at the field of the schedule it is about", () => {
    const { problems } = lint(`${schedule("one", "7 9 * * *")}---\n${schedule("two", "7 9 1 * MON")}`);
    expect(problems).toMatchObject([{ code: "TURNO_LINT_EITHER_DAY", line: 13, column: 9 }]);
  });

  it("is silenced in one document by a comment with a reason, which it keeps", () => {
    const comment = "# turno-lint-ignore TURNO_LINT_EITHER_DAY: on the first and on Mondays, as payroll asked\n";
    const { problems, ignored } = lint(
      `${schedule("one", "7 9 1 * MON", comment)}---\n${schedule("two", "7 9 1 * MON")}`,
    );
    expect(problems).toMatchObject([{ code: "TURNO_LINT_EITHER_DAY", line: 14 }]);
    expect(ignored).toEqual([
      { code: "TURNO_LINT_EITHER_DAY", line: 7, reason: "on the first and on Mondays, as payroll asked" },
    ]);
  });

  it("is not silenced without a reason, by an unknown code, or where there is nothing to silence", () => {
    const { problems } = lint(
      [
        schedule("one", "7 9 1 * MON", "# turno-lint-ignore TURNO_LINT_EITHER_DAY\n"),
        schedule("two", "7 9 * * *", "# turno-lint-ignore TURNO_LINT_EITHER_DAYS: why\n"),
        schedule("three", "7 9 * * *", "# turno-lint-ignore TURNO_LINT_NEVER_FIRES: why\n"),
      ].join("---\n"),
    );
    expect(problems.map(({ code, line }) => `${code} ${line}`)).toEqual([
      "TURNO_LINT_IGNORE 1",
      "TURNO_LINT_EITHER_DAY 7",
      "TURNO_LINT_IGNORE 9",
      "TURNO_LINT_IGNORE 17",
    ]);
    expect(problems[0]?.message).toContain("expected the reason");
    expect(problems[2]?.message).toContain("found TURNO_LINT_EITHER_DAYS");
    expect(problems[3]?.message).toContain("there is none in this document");
  });

  it("finds a calendar that runs out while a schedule keeps to it", () => {
    const calendar = (name: string, spec: string) =>
      `apiVersion: turno/v1\nkind: Calendar\nmetadata: { name: ${name} }\nspec: ${spec}\n`;
    const { problems } = lint(
      [
        `${schedule("one", "7 9 * * *")}  calendars: { exclude: [old, kept, fresh, weekly] }\n`,
        calendar("old", '{ dates: ["2026-01-01", "2026-12-25"] }'),
        calendar("kept", '{ dates: ["2026-01-01"], validUntil: 2027-01-15 }'),
        calendar("fresh", '{ dates: ["2026-01-01"], validUntil: 2027-06-30 }'),
        calendar("weekly", "{ weekdays: [SUN] }"),
        calendar("unused", '{ dates: ["2026-01-01"] }'),
      ].join("---\n"),
    );
    expect(problems.map(({ code, message }) => [code, message])).toEqual([
      ["TURNO_LINT_CALENDAR_ENDS", "Calendar/old runs out: its last day is 2026-12-25, and 1 schedule keeps to it"],
      [
        "TURNO_LINT_CALENDAR_ENDS",
        "Calendar/kept runs out: it is kept up until 2027-01-15, and 1 schedule keeps to it",
      ],
    ]);
  });

  it("leaves suspended schedules alone", () => {
    expect(lint(`${schedule("one", "7 9 1 * MON")}  suspend: true\n`).problems).toEqual([]);
  });
});

describe("comments of lint", () => {
  it("are comments only: what a block of text holds is none", () => {
    const text = `a: |\n  # turno-lint-ignore X_Y: no\nb: "# turno-lint-ignore X_Y: no"\nc: 1 # turno-lint-ignore X_Y: yes\n---\n# turno-lint-ignore\n`;
    const read = readLintComments(text);
    expect(read.comments).toEqual([
      { line: 4, column: 6, code: "X_Y", reason: "yes" },
      { line: 6, column: 1, code: null, reason: null },
    ]);
    expect([1, 4, 5, 6].map((line) => documentAt(read, line))).toEqual([0, 0, 1, 1]);
  });
});
