import { once } from "node:events";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type RunningProgram, runProgram } from "../support/programs.ts";

const SCRIPTS = fileURLToPath(new URL("../../scripts/", import.meta.url));
const FAKE_TURNO = `
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => console.log(signal));
process.on("SIGHUP", () => process.exit(7));
setInterval(() => {}, 60_000);
// Last: whoever has read this may send signals.
console.log("arguments " + process.argv.slice(2).join(" "));
console.log(process.pid);
`;
const STARTER = `
import { runTurno } from "./scripts/run-turno.mjs";
process.exitCode = await runTurno(["up", "--port", "0"]);
`;

let project: string;
const programs: RunningProgram[] = [];

beforeEach(async () => {
  project = await mkdtemp(join(tmpdir(), "turno start "));
  await cp(SCRIPTS, join(project, "scripts"), { recursive: true });
  await mkdir(join(project, "bin"));
  await writeFile(join(project, "bin", "turno.js"), FAKE_TURNO);
  await writeFile(join(project, "package.json"), '{ "type": "module" }');
  await writeFile(join(project, "starter.mjs"), STARTER);
});

afterEach(async () => {
  // The program behind a starter ends with its SIGHUP, also where a test failed half-way.
  for (const { child } of programs.splice(0)) child.kill("SIGHUP");
  await rm(project, { recursive: true });
});

function run(...args: Parameters<typeof runProgram>): RunningProgram {
  const program = runProgram(...args);
  programs.push(program);
  return program;
}

test("a signal that comes twice, from the terminal and from npm, reaches the program once, and its exit code is passed on", async () => {
  const starter = run(join(project, "starter.mjs"), []);
  expect(await starter.nextLine()).toBe("arguments up --port 0");
  await starter.nextLine();
  starter.child.kill("SIGINT");
  starter.child.kill("SIGINT");
  expect(await starter.nextLine()).toBe("SIGINT");
  starter.child.kill("SIGTERM");
  expect(await starter.nextLine()).toBe("SIGTERM");
  const exited = once(starter.child, "exit");
  starter.child.kill("SIGHUP");
  expect(await exited).toEqual([7, null]);
});

test("when npm's shell is ended and tells nobody, the program is ended all the same", async () => {
  const command = `'${process.execPath}' '${join(project, "starter.mjs")}'; true`;
  const shell = run("-c", [command], { program: "sh", env: { npm_lifecycle_event: "start" } });
  await shell.nextLine();
  const pid = Number(await shell.nextLine());
  shell.child.kill("SIGTERM");
  expect(await shell.nextLine()).toBe("SIGTERM");
  process.kill(pid, "SIGHUP");
});

test("an old Node is told which version is needed before anything else is loaded", async () => {
  const pretend = `data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"18.20.4"}})`;
  const starter = run("--import", [pretend, join(project, "scripts", "start.mjs")], { stderr: "pipe" });
  const [code] = await once(starter.child, "exit");
  expect(code).toBe(1);
  expect(await starter.errors()).toMatch(/needs Node\.js 20\.19 or newer, and this is 18\.20\.4/);
});

test("a project without its lock file says what is missing", async () => {
  const starter = run(join(project, "scripts", "start.mjs"), [], { stderr: "pipe" });
  expect((await once(starter.child, "exit"))[0]).toBe(1);
  expect(await starter.errors()).toContain("package-lock.json is missing");
});
