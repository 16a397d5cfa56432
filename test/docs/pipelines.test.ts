import { execFile } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { runCli } from "../../runtime/cli/run-cli.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const PIPELINES = join(ROOT, "docs", "pipelines");
const run = promisify(execFile);

async function helpOf(command: string): Promise<string> {
  let help = "";
  await runCli([command, "--help"], {
    cwd: ROOT,
    env: {},
    colour: false,
    errIsTerminal: false,
    interactive: false,
    out: (text) => {
      help += text;
    },
    err: () => {},
    signal: new AbortController().signal,
  });
  return help;
}

test.each(["github.yml", "gitlab.yml", "pre-commit"])("the commands and options of %s are there", async (file) => {
  const text = await readFile(join(PIPELINES, file), "utf8");
  if (file.endsWith(".yml")) expect(typeof parse(text)).toBe("object");
  const calls = [...text.matchAll(/npx (?:--no-install )?turno (\w+)([^\n|;>]*)/g)];
  expect(calls.length).toBeGreaterThan(1);
  for (const [, command = "", rest = ""] of calls) {
    const help = await helpOf(command);
    expect(help).toContain(`Usage: turno ${command}`);
    for (const [option] of rest.matchAll(/--[a-z-]+/g)) expect(help).toContain(option);
  }
});

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "turno hook ö "));
  await mkdir(join(folder, "node_modules", ".bin"), { recursive: true });
  const shim = join(folder, "node_modules", ".bin", "turno");
  await writeFile(shim, `#!/bin/sh\nexec "${process.execPath}" "${join(ROOT, "bin", "turno.js")}" "$@"\n`);
  await chmod(shim, 0o755);
  await writeFile(join(folder, ".gitignore"), "node_modules/\n");
  await mkdir(join(folder, ".githooks"));
  await cp(join(PIPELINES, "pre-commit"), join(folder, ".githooks", "pre-commit"));
  await git("init", "-q");
  await git("config", "core.hooksPath", ".githooks");
  await git("config", "user.name", "Ada");
  await git("config", "user.email", "ada@example.com");
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const git = (...args: readonly string[]) => run("git", args, { cwd: folder });
const project = (zone: string, gap = " ") =>
  `apiVersion: turno/v1\nkind: Project\nmetadata: { name: test }\nspec:\n  timeZone:${gap}${zone}\n`;

/** Five starts of the command line, beside whatever else the machine does. */
const HOOK_LIMIT_MS = 180_000;

test("the hook looks at what is staged: it lets the good through and keeps the bad and the ugly back", {
  timeout: HOOK_LIMIT_MS,
}, async () => {
  const commit = async (staged: string, inFolder: string) => {
    await writeFile(join(folder, "turno.yaml"), staged);
    await git("add", "-A");
    await writeFile(join(folder, "turno.yaml"), inFolder);
    const outcome = await git("commit", "-q", "-m", "x").catch((error: { stdout: string; stderr: string }) => error);
    return `${outcome.stdout}${outcome.stderr}`;
  };
  expect(await commit(project("Europe/Berlin"), project("Nowhere/AtAll"))).not.toContain("error");
  expect((await git("log", "--oneline")).stdout).toContain("x");
  expect(await commit(project("Nowhere/AtAll"), project("Europe/Berlin"))).toContain("turno.yaml:5:13 error");
  expect(await commit(project("Europe/Paris", "   "), project("Europe/Paris"))).toContain("run npx turno fmt");
  expect((await git("rev-list", "--count", "HEAD")).stdout.trim()).toBe("1");
});
