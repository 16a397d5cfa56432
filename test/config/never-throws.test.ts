import fc from "fast-check";
import { expect, test } from "vitest";
import { loadProject } from "../../runtime/config/load-project.ts";
import { formatReport, REPORT_FORMATS } from "../../runtime/config/report.ts";
import { PROJECT } from "./project-files.ts";

/** Text that comes near to documents: pieces of YAML and of Turno, in any order. */
const PIECES = [
  "apiVersion: turno/v1\n",
  "kind: Job\n",
  "kind: Schedule\n",
  "kind: Project\n",
  "kind: Policy\n",
  "metadata: { name: x }\n",
  "metadata:\n  name: ",
  "spec:\n",
  "spec: {",
  "}",
  "[",
  "]",
  "  handler: a.ts\n",
  "  payload: ",
  "$ref: ../x.json",
  "---\n",
  "...\n",
  "- ",
  "? ",
  ": ",
  "&a ",
  "*a",
  "<<: ",
  "!!str ",
  "%YAML 1.1\n",
  "|\n  text\n",
  "> ",
  '"',
  "'",
  "\\ud83d",
  "\t",
  "\r\n",
  "#",
  "__proto__: 1\n",
  "  cron: '0 0 31 2 *'\n",
  "  every: 5m\n",
  "  timeZone: UTC\n",
  "$".concat("{{ a }}"),
  "$".concat("{env:X}"),
  "9007199254740993",
  ".nan",
  "\u0000",
  "\ufeff",
  "\ud800",
  "é",
  "e\u0301",
  "true",
  "null",
  "~",
  "0x",
  "  retry: { maxAttempts: 1e9 }\n",
];
const nearYaml = fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }).map((pieces) => pieces.join(""));
const anyText = fc.string({ unit: "binary", maxLength: 200 });
const anyBytes = fc.uint8Array({ maxLength: 200 });

function check(files: ReadonlyMap<string, string | Uint8Array>): void {
  const { state, problems } = loadProject(files, { handlerExists: () => false });
  expect(state === null).toBe(problems.some(({ severity }) => severity === "error"));
  for (const { line, column, message, file } of problems) {
    expect(line >= 1 && column >= 1 && message !== "" && files.has(file)).toBe(true);
  }
  for (const format of REPORT_FORMATS) formatReport(problems, format, { files, colour: false, version: "0" });
}

test("loading never throws, whatever an included file holds, and always says why", () => {
  fc.assert(
    fc.property(fc.oneof(nearYaml, anyText, anyBytes), (content) => {
      check(
        new Map<string, string | Uint8Array>([
          ["turno.yaml", PROJECT],
          ["turno.d/a.yaml", content],
        ]),
      );
    }),
    { numRuns: 400 },
  );
});

test("loading never throws, whatever turno.yaml and a referred schema hold", () => {
  const job =
    "apiVersion: turno/v1\nkind: Job\nmetadata: { name: x }\nspec: { handler: a.ts, payload: { $ref: x.json } }\n";
  fc.assert(
    fc.property(fc.oneof(nearYaml, anyText, anyBytes), fc.oneof(nearYaml, anyText), (project, schema) => {
      check(
        new Map<string, string | Uint8Array>([
          ["turno.yaml", project],
          ["turno.d/a.yaml", job],
          ["turno.d/x.json", schema],
        ]),
      );
      check(
        new Map<string, string | Uint8Array>([
          ["turno.yaml", PROJECT],
          ["turno.d/a.yaml", job],
          ["turno.d/x.json", schema],
        ]),
      );
    }),
    { numRuns: 200 },
  );
});

test("any JSON as a spec gives an object or a problem", () => {
  fc.assert(
    fc.property(
      fc.constantFrom("Project", "Queue", "Policy", "Job", "Schedule"),
      fc.jsonValue({ maxDepth: 4 }),
      (kind, spec) => {
        const text = JSON.stringify({ apiVersion: "turno/v1", kind, metadata: { name: "x" }, spec });
        check(
          new Map([
            ["turno.yaml", PROJECT],
            ["turno.d/a.yaml", text],
          ]),
        );
      },
    ),
    { numRuns: 300 },
  );
});
