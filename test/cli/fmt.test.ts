import { chmod, readdir, readFile, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { EXIT } from "../../runtime/cli/io.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const UGLY = `kind:   Schedule
apiVersion: turno/v1
metadata: {name: s}
spec:
    job: greet   # says hello
    cron: "7 9 * * *"
    payload: { name: Ada }
`;
const NEAT = `apiVersion: turno/v1
kind: Schedule
metadata: { name: s }
spec:
  job: greet # says hello
  cron: "7 9 * * *"
  payload: { name: Ada }
`;

let project: CommandProject;
const read = (path: string) => readFile(join(project.root, path), "utf8");
beforeEach(async () => {
  project = await createCommandProject();
  expect((await project.run("fmt")).code).toBe(EXIT.done);
});
afterEach(() => project.remove());

test("fmt writes what is not in form and names it, and has nothing to do the second time", async () => {
  await project.write("turno.d/s.yaml", UGLY);
  await chmod(join(project.root, "turno.d/s.yaml"), 0o640);
  expect(await project.run("fmt")).toEqual({ code: EXIT.done, out: "turno.d/s.yaml\n", err: "" });
  expect(await read("turno.d/s.yaml")).toBe(NEAT);
  expect((await stat(join(project.root, "turno.d/s.yaml"))).mode & 0o777).toBe(0o640);
  expect(await project.run("fmt")).toEqual({ code: EXIT.done, out: "", err: "" });
  expect((await readdir(join(project.root, "turno.d"))).filter((name) => name.endsWith(".tmp"))).toEqual([]);
});

test("fmt --check writes nothing and exits with 1", async () => {
  await project.write("turno.d/s.yaml", UGLY);
  expect(await project.run("fmt", "--check")).toEqual({ code: EXIT.failed, out: "turno.d/s.yaml\n", err: "" });
  expect(await read("turno.d/s.yaml")).toBe(UGLY);
});

test("fmt leaves a file that cannot be read, says where, and formats the others", async () => {
  await project.write("turno.d/a.yaml", "kind: [\n");
  await project.write("turno.d/s.yaml", UGLY);
  const { code, out, err } = await project.run("fmt");
  expect(code).toBe(EXIT.failed);
  expect(out).toBe("turno.d/s.yaml\n");
  expect(err).toContain("turno.d/a.yaml:2:1");
  expect(await read("turno.d/a.yaml")).toBe("kind: [\n");
  expect(await read("turno.d/s.yaml")).toBe(NEAT);
});

test("fmt takes files by name, of other folders and behind links, and nothing that is not YAML", async () => {
  await project.write("other/real.yml", UGLY);
  await symlink(join(project.root, "other/real.yml"), join(project.root, "link.yaml"));
  expect(await project.run("fmt", "link.yaml")).toEqual({ code: EXIT.done, out: "link.yaml\n", err: "" });
  expect(await read("other/real.yml")).toBe(NEAT);
  expect((await project.run("fmt", "package.json")).code).toBe(EXIT.usage);
  const missing = await project.run("fmt", "missing.yaml");
  expect(missing.code).toBe(EXIT.failed);
  expect(missing.err).toContain("missing.yaml cannot be read");
});
