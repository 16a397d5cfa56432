import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT } from "../../runtime/cli/io.ts";
import { TESTS_SCHEMA } from "../../runtime/config/tests-schema.generated.ts";
import { addSpan, loadTimeTests } from "../../runtime/config/time-tests.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const SCHEDULES = `apiVersion: turno/v1
kind: Schedule
metadata: { name: payroll.close, labels: { weight: heavy } }
spec: { job: greet, cron: "0 20 LW * *", timeZone: Europe/Berlin, payload: { name: Ada } }
`;
const tests = (list: string) => `apiVersion: turno/v1
kind: TimeTests
spec:
  from: 2026-12-01T00:00:00Z
  tests:
${list}
`;
const HOLDS = `    - name: payroll closes once on each last business day of the next 24 months
      schedules: [payroll.close]
      over: 24 months
      firesOn: { days: last-business-day }
    - { name: at most 5 fires a minute, atMost: { fires: 5, per: minute } }
    - name: nothing heavy at work
      labels: { weight: heavy }
      timeZone: Europe/Berlin
      never: { from: "08:00", to: "18:00" }`;

let project: CommandProject;
beforeAll(async () => {
  project = await createCommandProject();
  await project.write("turno.d/s.yaml", SCHEDULES);
});
afterAll(() => project.remove());

describe("turno test", () => {
  test("exits with 0 when everything holds", async () => {
    await project.write("turno.tests.yaml", tests(HOLDS));
    const ran = await project.run("test");
    expect(ran).toMatchObject({ code: EXIT.done, err: "" });
    expect(ran.out).toMatch(/^ok {3}payroll closes once .* {2}\(1 schedule, 24 fires\)\n/);
    expect(ran.out).toMatch(/\n3 hold\n$/);
  });

  test("exits with 1 and names test, place and instant when something does not", async () => {
    await project.write("turno.tests.yaml", tests(HOLDS.replace("18:00", "21:00")));
    const ran = await project.run("test");
    expect(ran).toMatchObject({ code: EXIT.failed, err: "" });
    expect(ran.out).toContain("FAIL nothing heavy at work");
    expect(ran.out).toContain("     turno.tests.yaml:11\n");
    expect(ran.out).toContain("found 2026-12-31T20:00:00+01:00 (2026-12-31T19:00:00Z)");
    expect(ran.out).toMatch(/\n1 of 3 do not hold\n$/);
    const json = JSON.parse((await project.run("test", "--json")).out);
    expect(json).toMatchObject({
      ok: false,
      tests: [{ ok: true }, { ok: true }, { ok: false, line: 11, failureCount: 12 }],
    });
  });

  test("fails when an expectation is about nothing", async () => {
    await project.write(
      "turno.tests.yaml",
      tests(
        "    - { name: gone, schedules: [payroll.*, nightly], holidays: [none], firesOn: { days: last-business-day } }",
      ),
    );
    const ran = await project.run("test");
    expect(ran.code).toBe(EXIT.failed);
    expect(ran.out).toContain("no schedule is named nightly\n");
    expect(ran.out).toContain("there is no Calendar/none\n");
  });

  test("shows the problems of the expectations with their place, and checks nothing then", async () => {
    await project.write("turno.tests.yaml", tests("    - { name: x, atMost: { fires: 5, pre: minute } }"));
    const ran = await project.run("test");
    expect(ran).toMatchObject({ code: EXIT.failed, out: "" });
    expect(ran.err).toMatch(/turno\.tests\.yaml:6:\d+ error .*pre/);
  });

  test("needs the file, or another one by --file", async () => {
    const missing = await project.run("test", "--file", "other.yaml");
    expect(missing).toMatchObject({ code: EXIT.failed, out: "" });
    expect(missing.err).toContain("[TURNO_PROJECT_UNREADABLE]");
    await project.write("other.yaml", tests(HOLDS));
    expect((await project.run("test", "--file", "other.yaml")).code).toBe(EXIT.done);
    expect((await project.run("test", "--from", "noon")).code).toBe(EXIT.usage);
  });
});

describe("the file of expectations", () => {
  test("its schema's examples are valid, and what it cannot say is checked", () => {
    for (const example of TESTS_SCHEMA.examples as readonly unknown[]) {
      expect(loadTimeTests("t.yaml", JSON.stringify(example)).problems).toEqual([]);
    }
    const bad = tests('    - { name: x, timeZone: Europe/Berlni, firesAt: ["2026-02-30T00:00:00Z"] }');
    expect(loadTimeTests("t.yaml", bad).problems.map(({ code, hint }) => [code, hint])).toEqual([
      ["TURNO_TIME_INVALID", null],
      ["TURNO_TIME_INVALID", "Europe/Berlin"],
    ]);
    expect(loadTimeTests("t.yaml", "kind: Schedule").problems[0]?.code).toBe("TURNO_CONFIG_UNKNOWN_KIND");
    expect(loadTimeTests("t.yaml", tests("    - { name: x }")).problems).not.toEqual([]);
  });

  test("a span of months ends on the last day of a shorter month", () => {
    const span = (from: string, text: string) => addSpan(new Date(from), text).toISOString().slice(0, 10);
    expect(span("2027-01-31T00:00:00Z", "1 month")).toBe("2027-02-28");
    expect(span("2024-02-29T00:00:00Z", "1 year")).toBe("2025-02-28");
    expect(span("2027-01-31T00:00:00Z", "2 weeks")).toBe("2027-02-14");
    expect(span("2027-01-31T00:00:00Z", "24 months")).toBe("2029-01-31");
  });
});
