import pg from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type GitServer, startGitServer } from "../support/git-server.ts";
import { type CommandProject, createCommandProject, HANDLER, JOB, PROJECT } from "./run.ts";

let database: TestDatabase;
let project: CommandProject;
beforeEach(async () => {
  database = await createTestDatabase();
  project = await createCommandProject({ TURNO_DATABASE_URL: database.address.connectionString });
});
afterEach(async () => {
  await project.remove();
  await database.drop();
});

const schedule = (cron: string, timeZone = "Europe/Berlin") =>
  `apiVersion: turno/v1\nkind: Schedule\nmetadata: { name: night }\nspec: { job: greet, cron: "${cron}", timeZone: ${timeZone}, payload: { name: Ada } }\n`;

async function query(statement: string): Promise<void> {
  const client = new pg.Client(database.address);
  await client.connect();
  await client.query(statement);
  await client.end();
}

async function apply(cron: string): Promise<void> {
  await project.write("turno.yaml", PROJECT);
  await project.write("turno.d/greet.yaml", JOB);
  await project.write("turno.d/night.yaml", schedule(cron));
  await project.write("handlers/greet.ts", HANDLER);
  expect((await project.run("apply", "--yes")).err).toBe("");
}

describe("turno history", () => {
  it("tells each revision with its changes in words, newest first", async () => {
    await apply("0 2 * * *");
    await apply("0 3 * * *");
    const { out, code } = await project.run("history");
    expect(code).toBe(0);
    expect(out).toMatch(
      /^revision 2 {2}applied .* by .* turno apply\n {4}Schedule\/night 02:00 → 03:00 Europe\/Berlin\n/,
    );
    expect(out).toMatch(
      /revision 1 {2}applied .*\n {4}Job\/greet created\n {4}Project\/test created\n {4}Schedule\/night created \(cron 0 2/,
    );
    const listed = JSON.parse((await project.run("history", "--json", "--limit", "1")).out);
    expect(listed).toMatchObject({ items: [{ number: 2, rollbackOf: null, commit: null }] });
    expect(listed.nextCursor).not.toBe(null);
  });
});

describe("turno rollback", () => {
  it("brings a revision back, says so in the history, and holds the files until they change", async () => {
    await apply("0 2 * * *");
    await apply("0 3 * * *");
    const { out, code } = await project.run("rollback", "1", "--yes");
    expect(code).toBe(0);
    expect(out).toMatch(/Schedule\/night 03:00 → 02:00 Europe\/Berlin\nRevision 3 is in force, as 1 was/);
    expect((await project.run("history", "--limit", "1")).out).toMatch(/^revision 3 {2}rolled back to revision 1 /);

    const held = await project.run("sync");
    expect(held.code).toBe(3);
    expect(held.out).toMatch(/^Held: .*\n.*revision 3 brought back revision 1/);
    const status = await project.run("status");
    expect(status.code).toBe(2);
    expect(status.out).toMatch(/^Held .*revision 3 in force\n/);
    const released = await project.run("sync", "--confirm");
    expect(released).toMatchObject({ code: 0, out: "Revision 4 is in force.\n" });
    expect(await project.run("status")).toMatchObject({ code: 0, out: expect.stringMatching(/^Synced /) });
  });

  it("asks before it does, and does nothing for what is no revision", async () => {
    await apply("0 2 * * *");
    expect((await project.run("rollback", "1")).code).toBe(64);
    expect((await project.run("rollback", "one", "--yes")).code).toBe(64);
    const unknown = await project.run("rollback", "9", "--yes");
    expect(unknown).toMatchObject({ code: 1, err: expect.stringContaining("TURNO_REVISION_UNKNOWN") });
  });
});

describe("turno drift and turno diff", () => {
  it("show what is in force and not in the files, and what was done by hand", async () => {
    await apply("0 2 * * *");
    expect(await project.run("drift")).toMatchObject({ code: 0, out: expect.stringMatching(/^No drift: revision 1/) });
    await project.run("pause", "night", "--reason", "audit");
    await query('update turno.recurring_jobs set spec = spec || \'{"misfirePolicy": "all"}\'');
    await project.write("turno.d/night.yaml", schedule("0 4 * * *"));
    const { code, out } = await project.run("drift");
    expect(code).toBe(2);
    expect(out).toMatch(
      /^revision 1 is in force\nIn the files and not in force:\n {2}Schedule\/night 02:00 → 04:00 Europe\/Berlin\n/,
    );
    expect(out).toMatch(
      /By hand:\n {2}Schedule\/night was edited in the database\nPaused:\n {2}Schedule\/night by .*: audit\n$/,
    );
  });

  it("compare revisions with each other and with files", async () => {
    await apply("0 2 * * *");
    await apply("0 3 * * *");
    const revisions = await project.run("diff", "1", "2");
    expect(revisions.code).toBe(2);
    expect(revisions.out).toMatch(/~ Schedule\/night\n {4}\/spec\/cron {2}0 2 \* \* \* → 0 3 \* \* \*\n/);
    expect(await project.run("diff", "2", ".")).toMatchObject({ code: 0 });
    expect((await project.run("diff", "9", ".")).err).toContain("TURNO_REVISION_UNKNOWN");
  });

  it("count a guard's refusal as one, in the plan and the apply", async () => {
    await apply("0 2 * * *");
    await project.write(
      "turno.yaml",
      PROJECT.replace("timeZone: UTC", "timeZone: UTC, sync: { guard: { maxDeletes: 0 } }"),
    );
    await project.run("apply", "--yes");
    await project.write("turno.d/night.yaml", "apiVersion: turno/v1\nkind: Queue\nmetadata: { name: default }\n");
    expect((await project.run("plan")).out).toMatch(/an apply would be refused: expected at most 0 objects/);
    expect(await project.run("apply", "--yes")).toMatchObject({ code: 3 });
    expect(await project.run("apply", "--yes", "--confirm-deletes")).toMatchObject({ code: 0 });
  });
});

describe("turno blame", () => {
  it("leads from a job to file, line and revision", async () => {
    await apply("0 2 * * *");
    const job = JSON.parse((await project.run("enqueue", "greet", "--payload", '{"name":"Ada"}', "--json")).out);
    const { out } = await project.run("blame", job.id);
    expect(out).toMatch(/greet\n {2}declared in turno\.d\/greet\.yaml:2\nrevision 1 {2}applied /);
  });
});

describe("a project whose files come from a repository", () => {
  let server: GitServer;
  beforeEach(async () => {
    server = await startGitServer();
  });
  afterEach(() => server.close());

  it("is brought into force by turno sync, with the commit in history and blame", async () => {
    const commit = server.commit(
      {
        "turno.yaml": PROJECT,
        "turno.d/greet.yaml": JOB,
        "turno.d/night.yaml": schedule("0 2 * * *"),
        "handlers/greet.ts": HANDLER,
      },
      { message: "Greet at two" },
    );
    await project.write(
      "turno.yaml",
      PROJECT.replace("timeZone: UTC", `timeZone: UTC, source: { git: { url: "${server.url}" } }`),
    );
    expect(await project.run("sync")).toMatchObject({ code: 0, out: "Revision 1 is in force.\n" });
    expect(await project.run("sync")).toMatchObject({ code: 0, out: "No changes: revision 1 is in force.\n" });
    const shown = `${commit.slice(0, 12)} Ada Lovelace: Greet at two`;
    expect((await project.run("history")).out).toContain(shown);
    const job = JSON.parse((await project.run("enqueue", "greet", "--payload", '{"name":"Ada"}', "--json")).out);
    expect((await project.run("blame", job.id)).out).toContain(shown);

    await server.down();
    const away = await project.run("sync");
    expect(away.code).toBe(1);
    expect(away.out).toMatch(/^Unreachable: what was in force stays\.\n/);
    expect((await project.run("status")).out).toContain(`at ${commit.slice(0, 12)}`);
  });

  it("is not taken from the folder while its turno.yaml cannot be read", async () => {
    await project.write(
      "turno.yaml",
      `${PROJECT.replace("timeZone: UTC", "timeZone: UTC, source: { git: { url: 'ext::sh -c id' } }")}`,
    );
    expect(await project.run("sync")).toMatchObject({ code: 1, err: expect.stringContaining("TURNO_PROJECT_INVALID") });
  });
});
