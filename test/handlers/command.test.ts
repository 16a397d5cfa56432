import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, onTestFinished, test } from "vitest";
import { createCommandRunner } from "../../runtime/adapters/handlers/command.ts";
import { COMMAND_SETTINGS_SCHEMA } from "../../runtime/adapters/handlers/command-settings.ts";
import type { JsonObject } from "../../runtime/core/json.ts";
import { makeDefinition, makeFolder, makeRequest, type RunOptions } from "./support.ts";

const NODE = process.execPath;

function start(settings: JsonObject, options: RunOptions & { readonly graceMs?: number; readonly root?: string } = {}) {
  const runner = createCommandRunner({
    projectRoot: options.root ?? makeFolder(),
    clock: { monotonicMs: () => performance.now() },
    guard: { guard: () => {}, keepUntil: () => {}, release: () => {} },
    ...(options.graceMs === undefined ? {} : { graceMs: options.graceMs }),
  });
  onTestFinished(() => runner.close());
  return runner.run(makeRequest(makeDefinition({ handler: "builtin/command", bundleHash: null, settings }), options));
}

const evaluate = (script: string, ...parameters: string[]) => ({ command: [NODE, "-e", script, ...parameters] });

async function resultOf(settings: JsonObject, options: RunOptions & { readonly root?: string } = {}) {
  const outcome = await start(settings, options).outcome;
  if (outcome.kind !== "returned" || outcome.result === null) throw new Error(JSON.stringify(outcome));
  return JSON.parse(outcome.result);
}

describe("a command", () => {
  test("gets references inside of a value too, and shows none of what they stand for", async () => {
    process.env.TURNO_TEST_PASSWORD = "open-sesame";
    onTestFinished(() => {
      delete process.env.TURNO_TEST_PASSWORD;
    });
    const settings = {
      ...evaluate("console.log(process.env.URL.length, process.env.URL)"),
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the reference as it stands in YAML
      env: { URL: "https://me:${env:TURNO_TEST_PASSWORD}@example.com" },
    };
    expect((await resultOf(settings)).stdout).toBe("34 https://me:***@example.com\n");
  });

  test("shows no part of a secret where its output is cut", async () => {
    process.env.TURNO_TEST_PASSWORD = "open-sesame";
    onTestFinished(() => {
      delete process.env.TURNO_TEST_PASSWORD;
    });
    for (let outputLimit = 30; outputLimit < 45; outputLimit++) {
      const settings = {
        ...evaluate('process.stdout.write(process.env.PW.repeat(3) + "-".repeat(20))'),
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the reference as it stands in YAML
        env: { PW: "${env:TURNO_TEST_PASSWORD}" },
        outputLimit,
      };
      expect((await resultOf(settings)).stdout).toMatch(/^[*]*-+$/);
    }
  });

  test("says that its folder is not there, instead of blaming the program", async () => {
    const outcome = await start({ command: [NODE], cwd: "nowhere" }).outcome;
    expect(outcome).toMatchObject({
      kind: "threw",
      error: { permanent: true, message: expect.stringMatching(/its working folder .*nowhere is not there/) },
    });
  });

  test("gets its arguments as they are, the payload on standard input, and its output becomes the result", async () => {
    const script = 'process.stdin.pipe(process.stdout); console.error(process.argv.slice(1).join("|"))';
    const result = await resultOf(evaluate(script, "$HOME", "a b", "*", "; exit 1"), { payload: { n: 7 } });
    expect(result).toMatchObject({
      exitCode: 0,
      stdout: '{"n":7}',
      stderr: "$HOME|a b|*|; exit 1\n",
      stdoutDropped: 0,
    });
    expect(result.durationMs).toBeGreaterThan(0);
  });

  test("runs in a folder relative to the project and has a small environment", async () => {
    process.env.TURNO_TEST_PASSWORD = "open sesame";
    try {
      const root = makeFolder({ "sub/file": "" });
      const settings = {
        ...evaluate("console.log(JSON.stringify({ cwd: process.cwd(), env: process.env }))"),
        cwd: "sub",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the reference as it stands in YAML
        env: { LITERAL: "x", LENGTH_ONLY: "${env:TURNO_TEST_PASSWORD}" },
      };
      const { stdout } = await resultOf(settings, { root });
      const { cwd, env } = JSON.parse(stdout);
      expect(cwd).toBe(`${root}/sub`);
      expect(env).toMatchObject({
        LITERAL: "x",
        LENGTH_ONLY: "***",
        TURNO_JOB_ID: expect.any(String),
        TURNO_FENCE: expect.any(String),
      });
      expect(env.TURNO_TEST_PASSWORD).toBeUndefined();
      expect(stdout).not.toContain("open sesame");
    } finally {
      delete process.env.TURNO_TEST_PASSWORD;
    }
  });

  test("keeps the end of a long output", async () => {
    const script = 'process.stdout.write("a".repeat(300_000) + "the end")';
    const result = await resultOf({ ...evaluate(script), outputLimit: 100 });
    expect(result.stdout).toHaveLength(100);
    expect(result.stdout).toMatch(/^a+the end$/);
    expect(result.stdoutDropped).toBe(300_007 - 100);
  });

  test("may leave a process behind that holds its output open", async () => {
    const script = `const { spawn } = require("node:child_process");
      const left = spawn(process.execPath, ["-e", "setTimeout(() => {}, 20_000)"], { stdio: "inherit" });
      console.log(left.pid); process.exit(0);`;
    const { stdout } = await resultOf(evaluate(script));
    const pid = Number(stdout);
    expect(() => process.kill(pid, "SIGKILL")).not.toThrow();
  });
});

describe("a command's exit code", () => {
  test.each([
    [{}, 3, false],
    [{ permanent: [3] }, 3, true],
    [{ permanent: [3] }, 4, false],
    [{ retry: [75] }, 75, false],
    [{ retry: [75] }, 1, true],
    [{ retry: [75], permanent: [2] }, 2, true],
  ])("with %j, %i is permanent: %s", async (exitCodes, code, permanent) => {
    const settings = { ...evaluate(`console.error("why\\nlast line"); process.exit(${code})`), exitCodes };
    expect(await start(settings).outcome).toMatchObject({
      kind: "threw",
      error: {
        name: "CommandError",
        message: `${NODE} ended with exit code ${code}: last line`,
        stack: "why\nlast line",
        permanent,
      },
    });
  });

  test("a program that is not there is permanent", async () => {
    const outcome = await start({ command: ["/no/such/program"] }).outcome;
    expect(outcome).toMatchObject({
      kind: "threw",
      error: { permanent: true, message: expect.stringMatching(/ENOENT/) },
    });
  });

  test.each([[{}], [{ command: [] }], [{ command: "ls" }], [{ command: ["ls"], env: { A: 1 } }]])(
    "settings that nobody validated (%j) are permanent",
    async (settings) => {
      expect(await start(settings).outcome).toMatchObject({ kind: "threw", error: { permanent: true } });
    },
  );

  test("a reference to an environment variable that is not set is permanent and names it", async () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the reference as it stands in YAML
    const outcome = await start({ ...evaluate(""), env: { A: "${env:TURNO_TEST_NOT_SET}" } }).outcome;
    expect(outcome).toMatchObject({
      kind: "threw",
      error: { permanent: true, message: expect.stringMatching(/TURNO_TEST_NOT_SET/) },
    });
  });
});

describe("ending a command", () => {
  const READY_FILE = (then: string) =>
    `${then}; require("node:fs").writeFileSync("ready", ""); setInterval(() => {}, 1000)`;

  test("asks with SIGTERM first, and a clean exit is a return", async () => {
    const { run, ready } = startReady(READY_FILE('process.on("SIGTERM", () => process.exit(0))'));
    await ready;
    run.abort("cancelled");
    expect(await run.outcome).toMatchObject({ kind: "returned" });
  });

  test("a command that dies of the signal says why it was asked", async () => {
    const { run, ready } = startReady(READY_FILE(""));
    await ready;
    run.abort("time-out");
    expect(await run.outcome).toMatchObject({
      kind: "threw",
      error: { permanent: false, message: expect.stringMatching(/SIGTERM after it was asked to stop \(time-out\)/) },
    });
  });

  test("kills after the grace time what ignores the signal", async () => {
    const { run, ready } = startReady(READY_FILE('process.on("SIGTERM", () => {})'), 50);
    await ready;
    run.abort("time-out");
    expect(await run.outcome).toMatchObject({ kind: "threw", error: { message: expect.stringMatching(/SIGKILL/) } });
  });

  test("the hard way takes the whole group", async () => {
    const { run, ready, root } = startReady(
      READY_FILE(
        'const { spawn } = require("node:child_process"); const c = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "inherit" }); require("node:fs").writeFileSync("pid", String(c.pid))',
      ),
    );
    await ready;
    run.end();
    expect(await run.outcome).toEqual({ kind: "cut-off" });
    const pid = Number(readFileSync(join(root, "pid"), "utf8"));
    await expect.poll(() => isGone(pid), { timeout: 5_000 }).toBe(true);
  });

  function startReady(script: string, graceMs?: number) {
    const root = makeFolder();
    const run = start(evaluate(script), { root, ...(graceMs === undefined ? {} : { graceMs }) });
    const ready = expect.poll(() => existsSync(join(root, "ready")), { timeout: 10_000 }).toBe(true);
    return { run, ready, root };
  }
});

describe("the schema of a command's settings", () => {
  const validate = new Ajv2020({ strict: true }).compile(COMMAND_SETTINGS_SCHEMA);
  test.each([
    [{ command: ["ls"] }, true],
    [{ command: ["ls"], cwd: "x", env: { A: "b" }, exitCodes: { retry: [1], permanent: [2] }, outputLimit: 10 }, true],
    [{ command: "ls -l" }, false],
    [{ command: [] }, false],
    [{}, false],
    [{ command: ["ls"], shell: true }, false],
    [{ command: ["a\u0000b"] }, false],
    [{ command: ["ls"], exitCodes: { retry: [0] } }, false],
    [{ command: ["ls"], env: { "A B": "x" } }, false],
  ])("%j: %s", (settings, valid) => {
    expect(validate(settings)).toBe(valid);
  });
});

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return existsSync(`/proc/${pid}/stat`) && /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}
