import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../../runtime/cli/io.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const FILE = "turno.d/every night.yaml";
const FILES = `apiVersion: turno/v1
kind: Schedule
metadata: { name: nightly } # the only one
spec:
  # Before the office opens.
  job: greet
  cron: "30 2 * * *"
  payload: { name: Ada }
---
apiVersion: turno/v1
kind: Queue
metadata: { name: default }`;

let project: CommandProject;
beforeAll(async () => {
  project = await createCommandProject();
  await project.write(FILE, FILES);
});
afterAll(() => project?.remove());

function git(...args: readonly string[]): void {
  execFileSync("git", args, { cwd: project.root, input: "" });
}

test("a patch of turno pause is what git apply takes, and a second one is refused", async () => {
  git("init", "-q");
  for (const args of [["nightly"], ["default", "--queue"]]) {
    const patch = await project.run("pause", ...args, "--as-patch");
    expect(patch).toMatchObject({ code: EXIT.done, err: "" });
    execFileSync("git", ["apply", "-"], { cwd: project.root, input: patch.out });
    const again = await project.run("pause", ...args, "--as-patch");
    expect(again.code).toBe(EXIT.failed);
    expect(again.err).toMatch(/says suspend: true already/);
  }
  expect(await readFile(join(project.root, FILE), "utf8")).toBe(
    `${FILES.replace("spec:\n", "spec:\n  suspend: true\n")}\nspec: { suspend: true }`,
  );
});

test("a patch is refused for what the files don't declare, and beside what a patch can't hold", async () => {
  const unknown = await project.run("pause", "elsewhere", "--as-patch");
  expect(unknown.code).toBe(EXIT.failed);
  expect(unknown.err).toMatch(/expected a document Schedule\/elsewhere[\s\S]*another source/);
  expect(await project.run("pause", "nightly", "--as-patch", "--reason", "x")).toMatchObject({ code: EXIT.usage });
});
