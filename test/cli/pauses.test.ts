import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT } from "../../runtime/cli/io.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const SCHEDULES = (suspend: boolean): string => `apiVersion: turno/v1
kind: Schedule
metadata: { name: nightly }
spec: { job: greet, cron: "30 2 * * *", timeZone: Europe/Berlin, payload: { name: Ada }, suspend: ${suspend} }
---
apiVersion: turno/v1
kind: Queue
metadata: { name: default }
`;

let database: TestDatabase;
let project: CommandProject;
beforeAll(async () => {
  database = await createTestDatabase();
  project = await createCommandProject({ TURNO_DATABASE_URL: database.address.connectionString });
  await project.write("turno.d/nightly.yaml", SCHEDULES(false));
  expect(await project.run("apply", "--yes")).toMatchObject({ code: EXIT.done });
});
afterAll(async () => {
  await project?.remove();
  await database?.drop();
});

async function shown(): Promise<string> {
  return (await project.run("schedules")).out.split("\n").find((line) => line.startsWith("nightly")) ?? "";
}

describe("turno pause and resume", () => {
  test("lay a pause over a schedule that every apply leaves there, and take it away", async () => {
    const paused = await project.run(
      "pause",
      "nightly",
      "--until",
      "2999-01-01T00:00:00Z",
      "--reason",
      "audit",
      "--json",
    );
    expect(paused).toMatchObject({ code: EXIT.done, err: "" });
    expect(JSON.parse(paused.out)).toMatchObject({ reason: "audit", until: "2999-01-01T00:00:00.000Z" });
    expect(await shown()).toContain("paused until 2999-01-01");
    await project.write("turno.d/nightly.yaml", SCHEDULES(false).replace("Ada", "Grace"));
    expect(await project.run("apply", "--yes")).toMatchObject({ code: EXIT.done });
    expect(await shown()).toContain("paused until");
    const resumed = await project.run("resume", "nightly");
    expect(resumed).toMatchObject({ code: EXIT.done });
    expect(resumed.out).toMatch(/^nightly {2}resumed, next fire /);
    expect(await shown()).not.toContain("paused");
  });

  test("do the same with a queue", async () => {
    expect(await project.run("pause", "default", "--queue")).toMatchObject({ code: EXIT.done });
    await project.write(
      "turno.d/nightly.yaml",
      SCHEDULES(false).replace("Queue\nmeta", "Queue\nspec: { concurrency: 3 }\nmeta"),
    );
    expect(await project.run("apply", "--yes")).toMatchObject({ code: EXIT.done });
    const again = await project.run("pause", "default", "--queue", "--reason", "still counting");
    expect(again.out).toContain("until it is resumed");
    expect(await project.run("resume", "default", "--queue")).toMatchObject({ code: EXIT.done });
  });

  test("refuse what the files suspend, what is not paused, what is not there and an end that has passed", async () => {
    const refused = async (...args: readonly string[]) => {
      const { code, err } = await project.run(...args);
      expect(code).toBe(EXIT.failed);
      return err;
    };
    expect(await refused("resume", "nightly")).toContain("is not paused");
    expect(await refused("pause", "unheard-of")).toContain("no schedule with this name");
    expect(await refused("pause", "unheard-of", "--queue")).toContain("no queue with this name");
    const past = await project.run("pause", "nightly", "--until", "2020-01-01T00:00:00Z");
    expect(past).toMatchObject({
      code: EXIT.usage,
      err: expect.stringContaining("/until: expected an instant to come"),
    });
    expect((await project.run("pause", "nightly", "--until", "tomorrow")).code).toBe(EXIT.usage);
    await project.write("turno.d/nightly.yaml", SCHEDULES(true));
    expect(await project.run("apply", "--yes")).toMatchObject({ code: EXIT.done });
    expect(await refused("resume", "nightly")).toContain("The files suspend the schedule nightly");
  });
});
