import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CommandIo } from "../../runtime/cli/io.ts";
import { openProject } from "../../runtime/cli/project.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

let project: CommandProject;
let io: CommandIo;

beforeAll(async () => {
  project = await createCommandProject();
  const quiet = { colour: false, errIsTerminal: false, interactive: false, out: () => {}, err: () => {} };
  io = { cwd: project.root, env: {}, ...quiet, signal: new AbortController().signal };
});
afterAll(() => project?.remove());

test("folders on the command line are seen from where the command runs", async () => {
  await project.write("deep/turno.yaml", "apiVersion: turno/v1\nkind: Project\nmetadata: { name: deep }\n");
  const { paths } = await openProject(io, { dir: "deep", data: "state" });
  expect(paths.root).toBe(join(project.root, "deep"));
  expect(paths.postgres).toBe(join(project.root, "state", "postgres"));
  // Packages that stay out of bundles are found from below the project.
  expect(paths.bundles).toBe(join(project.root, "deep", ".turno", "bundles"));
  expect(paths.upFiles).toEqual([
    join(project.root, "deep", ".turno", "run", "up.json"),
    join(project.root, "state", "run", "up.json"),
  ]);
});

test("settings that a supervisor hands down stand in place of the file's, and hold no secret", async () => {
  const env = { SECRET_URL: "postgres://u:geheim@h/d" };
  const text = (queues: string) =>
    `apiVersion: turno/v1\nkind: Project\nmetadata: { name: deep }\nspec: { runtime: { database: { url: "\${env:SECRET_URL}" }, worker: { queues: ${queues} } } }\n`;
  await project.write("deep/turno.yaml", text("[{ name: a, concurrency: 7 }]"));
  const parent = await openProject({ ...io, env }, { dir: "deep" });
  const handedDown = parent.handDown();
  expect(handedDown).not.toContain("geheim");
  await project.write("deep/turno.yaml", text("[{ name: b }]"));
  const child = await openProject({ ...io, env }, { dir: "deep", handedDown });
  expect(child.settings.worker.queues).toEqual([{ name: "a", concurrency: 7 }]);
  expect(child.settings.database.url).toBe(env.SECRET_URL);
  await expect(openProject(io, { dir: "deep", handedDown: "{}x" })).rejects.toThrow();
});

test("a turno.yaml that is a folder is told as one that is missing", async () => {
  await mkdir(join(project.root, "odd", "turno.yaml"), { recursive: true });
  await expect(openProject(io, { dir: "odd" })).rejects.toMatchObject({ code: "TURNO_PROJECT_MISSING" });
});
