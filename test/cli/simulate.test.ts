import { afterAll, beforeAll, expect, test } from "vitest";
import { openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { systemIds } from "../../runtime/adapters/system/ids.ts";
import { EXIT } from "../../runtime/cli/io.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const schedule = (name: string, timing: string) => `apiVersion: turno/v1
kind: Schedule
metadata: { name: ${name} }
spec: { job: greet, ${timing}, payload: { name: Ada } }
`;

let database: TestDatabase;
let project: CommandProject;
beforeAll(async () => {
  database = await createTestDatabase();
  project = await createCommandProject({ TURNO_DATABASE_URL: database.address.connectionString });
  await project.write("turno.d/s.yaml", schedule("hourly", "every: 1h"));
  expect(await project.run("apply", "--yes")).toMatchObject({ code: EXIT.done });
  const limits = { size: 1, statementTimeoutMs: 10_000 };
  const db = openDatabase({ address: database.address, applicationName: "test", logger: silentLogger, ...limits });
  for (let hours = 1; hours <= 4; hours++) {
    const id = systemIds.jobId();
    await db.query(
      `insert into turno.jobs (id, final, type, queue, state, sort_at, run_at, dispatch_id, started_at, finished_at, expires_on)
       values ($1, true, 'greet', 'default', 'Succeeded', now(), now(), $2, now() - interval '20 minutes', now(), current_date + 7)`,
      [id, hours],
    );
    const names = ["hourly", "old"];
    await db.query(
      `insert into turno.schedule_fires (schedule, fire_at, outcome, job_id)
       select name, date_trunc('hour', now()) - $2 * interval '1 hour', case when name = 'old' then 'missed' else 'fired' end,
         case when name = 'old' then null else $3::uuid end
       from unnest($1::text[]) as name`,
      [names, hours, id],
    );
  }
  await db.close();
});
afterAll(async () => {
  await project?.remove();
  await database?.drop();
});

test("simulate plays the files here through the recorded past, each run as long as recorded ones", async () => {
  await project.write(
    "turno.d/s.yaml",
    `${schedule("hourly", "every: 10m")}---\n${schedule("new", "every: { interval: 1m, from: finish }")}`,
  );
  const ran = await project.run("simulate", "--since", "1d", "--json");
  expect(ran).toMatchObject({ code: EXIT.done, err: "" });
  const result = JSON.parse(ran.out);
  // Runs of 20 minutes, every 10 minutes: each second fire is skipped.
  expect(result.schedules).toMatchObject([
    { name: "hourly", recorded: { fires: 4, skipped: 0 }, simulated: { fires: 144, skipped: 72 }, assumed: false },
    { name: "new", recorded: { fires: 0 }, simulated: { fires: 0 }, assumed: false, complete: false },
  ]);
  expect(result.queues).toMatchObject([{ name: "default", mostRunning: 1, mostWaiting: 0 }]);
  expect(result.gone).toEqual([{ name: "old", fires: 4 }]);
});

test("simulate is a table for people, and says what it does not know", async () => {
  const { out } = await project.run("simulate", "--since", "1d");
  expect(out).toMatch(/^hourly +4 → 144 +0 → 72 +0 +20 m +20 m$/m);
  expect(out).toMatch(/^default +4 +1 +0 +-$/m);
  expect(out).toContain("new: its fires cannot all be foreseen\n");
  expect(out).toContain("old: recorded with 4 fires, and not in the files\n");
});

test.each([
  [["simulate", "--since", "1y"], /--since: expected a duration/, EXIT.usage],
  [["simulate", "--assume", "x"], /--assume: expected a duration/, EXIT.usage],
])("%j is refused", async (args, message, code) => {
  const ran = await project.run(...args);
  expect(ran.err).toMatch(message);
  expect(ran).toMatchObject({ code, out: "" });
});
