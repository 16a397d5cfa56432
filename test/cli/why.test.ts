import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { EXIT } from "../../runtime/cli/io.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const SCHEDULE = `apiVersion: turno/v1
kind: Schedule
metadata: { name: nightly }
spec: { job: greet, cron: "30 2 * * *", timeZone: Europe/Berlin, payload: { name: Ada } }
`;
const JOB = "019c0000-0000-7000-8000-000000000001";

let database: TestDatabase;
let project: CommandProject;
beforeAll(async () => {
  database = await createTestDatabase();
  project = await createCommandProject({ TURNO_DATABASE_URL: database.address.connectionString });
  await project.write("turno.d/nightly.yaml", SCHEDULE);
  expect(await project.run("apply", "--yes")).toMatchObject({ code: EXIT.done });
  const open = openDatabase({
    address: database.address,
    applicationName: "test",
    logger: silentLogger,
    size: 1,
    statementTimeoutMs: 10_000,
  });
  const fires = [
    ["2026-03-27T01:30:00Z", "fired", JOB, null, 0],
    ["2026-03-28T01:30:00Z", "overlapped", null, JOB, 0],
    ["2026-03-29T01:00:00Z", "superseded", null, null, 3],
  ];
  for (const fire of fires) {
    await open.query(
      `insert into turno.schedule_fires (schedule, fire_at, outcome, job_id, blocked_by, older_skips, late_ms)
       values ('nightly', $1, $2, $3, $4, $5, 61000)`,
      fire,
    );
  }
  await open.close();
});
afterAll(async () => {
  await project?.remove();
  await database?.drop();
});

const why = async (at: string, ...args: readonly string[]) => {
  const ran = await project.run("why", "nightly", "--at", at, "--json", ...args);
  expect(ran).toMatchObject({ code: EXIT.done, err: "" });
  return JSON.parse(ran.out) as { verdict: string; reasons: readonly string[]; at: string; jobId: string | null }[];
};

describe("turno why", () => {
  test("tells the run of an instant that fired", async () => {
    expect(await why("2026-03-27T01:30:00Z")).toMatchObject([
      {
        verdict: "fired",
        jobId: JOB,
        reasons: [`fired: job ${JOB}, cleaned up, 1 m 1 s late`, expect.stringContaining('matches "30 2 * * *"')],
      },
    ]);
  });

  test("tells why an instant was skipped, and by which job", async () => {
    const [overlapped] = await why("2026-03-28T02:30");
    expect(overlapped).toMatchObject({ verdict: "skipped", at: "2026-03-28T01:30:00Z" });
    expect(overlapped?.reasons[0]).toContain(`job ${JOB} of the schedule was in its way`);
    const [superseded] = await why("2026-03-29T01:00:00Z");
    expect(superseded?.reasons[0]).toMatch(
      /a newer instant ran in its place.*; 3 instants before it were skipped with it/,
    );
  });

  test("leads a time that does not exist to the end of the gap", async () => {
    const [gap] = await why("2026-03-29T02:30");
    expect(gap).toMatchObject({ at: "2026-03-29T01:00:00Z", verdict: "skipped" });
    expect(gap?.reasons[0]).toBe(
      "2026-03-29T02:30 does not exist in Europe/Berlin: clocks go forward to 2026-03-29T03:00:00+02:00",
    );
  });

  test("answers for both instants of a time that occurs twice", async () => {
    const both = await why("2099-10-25T02:30");
    expect(both.map(({ verdict, at }) => [verdict, at])).toEqual([
      ["will-fire", "2099-10-25T00:30:00Z"],
      ["does-not-fire", "2099-10-25T01:30:00Z"],
    ]);
  });

  test("names the field that does not match, and what is not known", async () => {
    expect((await why("2026-03-28T02:31"))[0]).toMatchObject({
      verdict: "does-not-fire",
      reasons: ['"30 2 * * *" does not match: the minute is 31'],
    });
    const [unknown] = await why("2026-03-20T02:30");
    expect(unknown?.verdict).toBe("no-record");
    expect(unknown?.reasons[0]).toMatch(/declared as it is since .*, after this instant/);
  });

  test("is text for people, with the fires around it", async () => {
    const { out } = await project.run("why", "nightly", "--at", "2026-03-28T02:30");
    expect(out).toMatch(
      /^Schedule\/nightly did not run at 2026-03-28T02:30:00\+01:00 Europe\/Berlin \(2026-03-28T01:30:00Z\)\n/,
    );
    expect(out).toContain("  after it:  2026-03-29T03:00:00+02:00  2026-03-29T01:00:00Z\n");
  });

  test("asks the files alone with --files, and needs no database then", async () => {
    const bare = await createCommandProject();
    try {
      await bare.write("turno.d/nightly.yaml", SCHEDULE);
      const ran = await bare.run("why", "nightly", "--files", "--at", "2026-03-28T02:30");
      expect(ran).toMatchObject({ code: EXIT.done, err: "" });
      expect(ran.out).toMatch(/^Schedule\/nightly fires at/);
      expect((await bare.run("why", "none", "--files", "--at", "2026-03-28T02:30")).err).toContain(
        "[TURNO_SCHEDULE_NOT_FOUND]",
      );
    } finally {
      await bare.remove();
    }
  });

  test.each([
    [["why", "nightly"], /required option '--at <instant>'/, EXIT.usage],
    [["why", "nightly", "--at", "noon"], /--at: expected an instant/, EXIT.usage],
    [["why", "nightly", "--at", "2026-02-30T02:30"], /--at: expected an instant/, EXIT.usage],
    [["why", "none", "--at", "2026-03-28T02:30"], /\[TURNO_SCHEDULE_NOT_FOUND\]/, EXIT.failed],
  ])("%j is refused", async (args, message, code) => {
    const ran = await project.run(...args);
    expect(ran.err).toMatch(message);
    expect(ran).toMatchObject({ code, out: "" });
  });
});
