import { existsSync } from "node:fs";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { simpleGit } from "simple-git";
import { afterEach, beforeEach, expect, test } from "vitest";
import { EXIT } from "../../runtime/cli/io.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const schedule = (cron: string) => `apiVersion: turno/v1
kind: Schedule
metadata: { name: nightly }
spec: { job: greet, cron: "${cron}", payload: { name: Ada } }
`;
const FIRES = ["--fires", "2d", "--from", "2026-07-06T00:00:00Z"];

let project: CommandProject;
let other: string;
beforeEach(async () => {
  project = await createCommandProject();
  await project.write("turno.d/nightly.yaml", schedule("0 1 * * *"));
  other = await mkdtemp(join(tmpdir(), "turno other "));
  await cp(project.root, other, { recursive: true });
});
afterEach(async () => {
  await project.remove();
  await rm(other, { recursive: true, force: true });
});

test("a plan against another folder compares both sets of files, handlers included, without a database", async () => {
  const same = await project.run("plan", "--against", other, ...FIRES);
  expect(same).toMatchObject({ code: EXIT.done, err: "" });
  expect(same.out).toBe(`No changes: the files declare what ${other} does.\n`);

  await project.write("turno.d/nightly.yaml", schedule("0 2 * * *"));
  const text = await project.run("plan", "--against", other, ...FIRES);
  expect(text.code).toBe(EXIT.changes);
  expect(text.out).toContain("    ~ Mon 2026-07-06 01:00Z → Mon 2026-07-06 02:00Z\n");
  expect(text.out).toContain(`Plan against ${other}: 0 to create, 1 to update, 0 to delete.\n`);

  const json = JSON.parse((await project.run("plan", "--against", other, "--json", ...FIRES)).out);
  expect(json).toMatchObject({ base: { revision: null, against: other }, fires: { added: 0, removed: 0, moved: 2 } });
  expect(existsSync(join(project.root, ".turno"))).toBe(false);
});

test("a plan against a commit compares with the project's files as that commit has them, and leaves the repository alone", async () => {
  const git = simpleGit({ baseDir: project.root });
  await git.init().addConfig("user.name", "Ada").addConfig("user.email", "ada@example.com");
  await git.add(".").commit("first").tag(["v1"]);
  await project.write("turno.d/nightly.yaml", schedule("0 2 * * *"));
  await project.write("staged.txt", "staged");
  await git.add("staged.txt");
  const status = () => git.raw(["status", "--porcelain"]);
  const before = await status();

  const ran = await project.run("plan", "--against", "git:v1", "--format", "markdown", ...FIRES);
  expect(ran).toMatchObject({ code: EXIT.changes, err: "" });
  expect(ran.out).toContain("**1 to update**");
  expect(await status()).toBe(before);

  const unknown = await project.run("plan", "--against", "git:nothing");
  expect(unknown).toMatchObject({ code: EXIT.failed, out: "" });
  expect(unknown.err).toMatch(/the project's files of git:nothing .*\[TURNO_PROJECT_UNREADABLE\]/);
});

test("a project below the top of its repository is compared with its own part of a commit", async () => {
  const ops = join(other, "ops");
  await cp(project.root, ops, { recursive: true });
  await rm(join(other, "turno.yaml"));
  const git = simpleGit({ baseDir: other });
  await git.init().addConfig("user.name", "Ada").addConfig("user.email", "ada@example.com");
  await git.add(".").commit("first");
  const same = await project.run("plan", "--dir", ops, "--against", "git:HEAD", ...FIRES);
  expect(same).toEqual({ code: EXIT.done, out: "No changes: the files declare what git:HEAD does.\n", err: "" });
  await writeFile(join(ops, "turno.d/nightly.yaml"), schedule("0 2 * * *"));
  expect((await project.run("plan", "--dir", ops, "--against", "git:HEAD", ...FIRES)).code).toBe(EXIT.changes);
});

test("a folder without a project is refused, and problems of its files are told", async () => {
  const none = await project.run("plan", "--against", join(other, "handlers"));
  expect(none).toMatchObject({ code: EXIT.failed, out: "" });
  expect(none.err).toContain("[TURNO_PROJECT_MISSING]");

  const valid = await project.run("plan", "--dir", other, "--against", project.root);
  expect(valid.code).toBe(EXIT.done);
  await project.write("turno.d/nightly.yaml", schedule("61 1 * * *"));
  const invalid = await project.run("plan", "--dir", other, "--against", project.root);
  expect(invalid.code).toBe(EXIT.failed);
  expect(invalid.err).toMatch(/expected valid files in .* found 1 problems, the first in turno\.d\/nightly\.yaml:4/);
});
