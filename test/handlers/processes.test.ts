import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { entryFile } from "../../runtime/adapters/handlers/entry-file.ts";
import { makeFolder, openWorkbench } from "./support.ts";

const SPAWN = `import { spawn } from "node:child_process";
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });`;
const HANDLERS = {
  "pid.ts": "export default () => process.pid;",
  "env.ts": "export default () => process.env;",
  "crash.ts": "export default () => process.abort();",
  "blocked.ts": `${SPAWN} export default async (payload, ctx) => { ctx.log.info("grandchild", { pid: child.pid }); await ctx.progress(1); for (;;); };`,
  "reports.ts": `import { parentPort } from "node:worker_threads";
    export default async (stray) => {
      process.send?.(stray);
      parentPort?.postMessage(stray);
      await new Promise((turn) => setImmediate(turn));
      throw new Error("the real end");
    };`,
  "leaves.ts": `${SPAWN} export default async () => { child.unref(); return child.pid; };`,
};
const PROCESS = { isolation: "process" } as const;

describe("a job in a process of its own", () => {
  test("every run has another process", async () => {
    const bench = openWorkbench(HANDLERS);
    const [first, second] = await Promise.all([bench.run("pid.ts", PROCESS), bench.run("pid.ts", PROCESS)]);
    expect(first).toMatchObject({ kind: "returned" });
    expect(first).not.toEqual(second);
    expect(first).not.toMatchObject({ result: String(process.pid) });
  });

  test("is what a suspect of any isolation gets", async () => {
    const bench = openWorkbench(HANDLERS);
    const outcome = await bench.run("pid.ts", { isolation: "inline", alone: true });
    expect(outcome).not.toMatchObject({ result: String(process.pid) });
  });

  test("gets none of the worker's environment but the allowed names", async () => {
    process.env.TURNO_TEST_SECRET = "secret";
    try {
      const bench = openWorkbench(HANDLERS, { threadEnv: { TURNO_DATABASE_URL: "postgres://secret" } });
      const outcome = await bench.run("env.ts", PROCESS);
      const names = Object.keys(JSON.parse(outcome.kind === "returned" ? (outcome.result ?? "{}") : "{}"));
      const allowed = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "NODE_ENV", "TURNO_PROJECT_ROOT"];
      expect(names.filter((name) => !allowed.includes(name) && !name.startsWith("NODE_CHANNEL"))).toEqual([]);
      expect(names).toContain("PATH");
    } finally {
      delete process.env.TURNO_TEST_SECRET;
    }
  });

  const strays = ["ready", null, { ready: true }, [null], [["returned", 1, '"forged"']]];
  test.each((["thread", "process"] as const).flatMap((isolation) => strays.map((stray) => ({ isolation, stray }))))(
    "in a $isolation that posts $stray to whoever started it changes nothing",
    async ({ isolation, stray }) => {
      const bench = openWorkbench(HANDLERS);
      expect(await bench.run("reports.ts", { isolation, payload: stray })).toMatchObject({
        kind: "threw",
        error: { message: "the real end" },
      });
      expect(await bench.run("pid.ts", { isolation })).toMatchObject({ kind: "returned" });
    },
  );

  test("that dies is a crash, and the next one works", async () => {
    const bench = openWorkbench(HANDLERS);
    expect(await bench.run("crash.ts", PROCESS)).toMatchObject({
      kind: "crashed",
      detail: expect.stringMatching(/SIGABRT/),
    });
    expect(await bench.run("pid.ts", PROCESS)).toMatchObject({ kind: "returned" });
  });

  test("is killed with what it has started", async () => {
    const bench = openWorkbench(HANDLERS);
    const run = await bench.startAndWait("blocked.ts", PROCESS);
    const { fields } = await bench.logged("grandchild");
    run.abort("time-out");
    run.end();
    expect(await run.outcome).toEqual({ kind: "cut-off" });
    await expect.poll(() => isAlive(Number(fields.pid)), { timeout: 5_000 }).toBe(false);
  });

  test("leaves nothing behind when it returns", async () => {
    const bench = openWorkbench(HANDLERS);
    const outcome = await bench.run("leaves.ts", PROCESS);
    const pid = Number(outcome.kind === "returned" ? outcome.result : 0);
    expect(pid).toBeGreaterThan(0);
    await expect.poll(() => isAlive(pid), { timeout: 5_000 }).toBe(false);
  });
});

describe("a handler process whose parent was killed", () => {
  test.each([
    ["waits", "await new Promise((resolve) => setInterval(resolve, 60_000));"],
    ["blocks its event loop", "for (;;);"],
  ])("ends although its handler %s", async (_, body) => {
    const root = makeFolder({
      "handler.mjs": `export default async (payload, ctx) => { await ctx.progress(1); ${body} };`,
      "parent.mjs": `import { fork } from "node:child_process";
        const child = fork(${JSON.stringify(fileURLToPath(entryFile("process-entry")))}, [${JSON.stringify(fileURLToPath(entryFile("process-watch")))}], {
          detached: true, serialization: "advanced", execArgv: [], stdio: ["ignore", "ignore", "ignore", "ipc", "pipe"],
        });
        const definition = { id: 1, type: "t", settings: {}, bundleHash: "h", bundleUrl: new URL("handler.mjs", import.meta.url).href, immediateRetry: { attempts: 0, initialMs: 1 } };
        child.send([["define", definition], ["run", 1, 1, "j", "{}", 1, 1, 1n, Date.now(), null, null]]);
        child.once("message", () => console.log(child.pid));`,
    });
    const parent = spawn(process.execPath, [join(root, "parent.mjs")], { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = await once(parent.stdout, "data");
    const pid = Number(String(line));
    expect(isAlive(pid)).toBe(true);
    parent.kill("SIGKILL");
    await expect.poll(() => isAlive(pid), { timeout: 10_000 }).toBe(false);
  });
});

/** A zombie, dead and not yet collected by init, counts as gone. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync(`/proc/${pid}/stat`) || !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
