import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../../runtime/cli/io.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const schedule = (name: string, cron: string) => `apiVersion: turno/v1
kind: Schedule
metadata: { name: ${name} }
spec: { job: greet, cron: "${cron}", payload: { name: Ada } }
`;

let project: CommandProject;
beforeAll(async () => {
  project = await createCommandProject();
});
afterAll(() => project.remove());

test("lint exits with 0 when there is nothing to say, with 1 and the place when there is", async () => {
  await project.write("turno.d/s.yaml", schedule("s", "7 9 * * *"));
  expect(await project.run("lint")).toEqual({ code: EXIT.done, out: "no problems\n", err: "" });
  await project.write("turno.d/s.yaml", schedule("s", "7 9 1 * MON"));
  const text = await project.run("lint");
  expect(text.code).toBe(EXIT.failed);
  expect(text.out).toMatch(/^turno\.d\/s\.yaml:4:\d+ warning "7 9 1 \* MON" restricts both/);
  expect(JSON.parse((await project.run("lint", "--json")).out)).toMatchObject({
    ok: false,
    problems: [{ code: "TURNO_LINT_EITHER_DAY", severity: "warning", file: "turno.d/s.yaml", path: "/spec/cron" }],
    ignored: [],
  });
  expect((await project.run("lint", "--format", "github")).out).toMatch(/^::warning file=turno\.d\/s\.yaml,line=4/);
  const sarif = JSON.parse((await project.run("lint", "--format", "sarif")).out);
  expect(sarif.runs[0].results).toHaveLength(1);
});

test("lint says how many findings the files silence", async () => {
  await project.write(
    "turno.d/s.yaml",
    `# turno-lint-ignore TURNO_LINT_EITHER_DAY: both are meant\n${schedule("s", "7 9 1 * MON")}`,
  );
  expect(await project.run("lint")).toEqual({
    code: EXIT.done,
    out: "no problems\n1 silenced in the files\n",
    err: "",
  });
});

test("lint counts pile-ups from --pile-up on, and looks from --from on", async () => {
  await project.write("turno.d/s.yaml", `${schedule("s", "0 3 * * *")}---\n${schedule("t", "0 3 * * *")}`);
  expect((await project.run("lint")).code).toBe(EXIT.done);
  const found = await project.run("lint", "--pile-up", "2", "--from", "2026-12-01T00:00:00Z");
  expect(found.out).toContain("Schedule/s fires together with 1 other at 2026-12-01T03:00:00Z");
});

test("lint shows the problems of files that are not valid", async () => {
  await project.write("turno.d/s.yaml", schedule("s", "61 3 * * *"));
  const ran = await project.run("lint");
  expect(ran).toMatchObject({ code: EXIT.failed, out: "" });
  expect(ran.err).toContain("TURNO_CRON_INVALID");
});

test.each([
  [["lint", "--pile-up", "1"], /--pile-up from 2/],
  [["lint", "--from", "noon"], /--from: expected an instant/],
  [["lint", "--format", "xml"], /Allowed choices/],
])("%j is wrong usage", async (args, message) => {
  const ran = await project.run(...args);
  expect(ran).toMatchObject({ code: EXIT.usage, out: "" });
  expect(ran.err).toMatch(message);
});
