import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { LeaseDeadline, machineMs } from "../../runtime/adapters/handlers/lease-deadline.ts";
import { type RunningProgram, runProgram } from "../support/programs.ts";
import { makeFolder, openWorkbench } from "./support.ts";

const LEASE_MS = 1_000;
const KINDS = ["process", "command"] as const;
const BUILT = fileURLToPath(new URL(`../../node_modules/.cache/turno-test/leased-${process.pid}/`, import.meta.url));

/** As in a build, what processes and threads start with lies beside the module that starts them. */
beforeAll(async () => {
  const source = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
  mkdirSync(BUILT, { recursive: true });
  writeFileSync(join(BUILT, "package.json"), JSON.stringify({ type: "module" }));
  await build({
    entryPoints: [
      source("../support/handlers/leased-worker.ts"),
      source("../../runtime/adapters/handlers/process-entry.ts"),
      source("../../runtime/adapters/handlers/process-watch.ts"),
    ],
    entryNames: "[name]",
    outdir: BUILT,
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
  });
});

/** A worker with one run, once that has started something of its own. */
async function startRun(kind: string): Promise<{ readonly worker: RunningProgram; readonly pids: readonly number[] }> {
  const root = makeFolder();
  const worker = runProgram(join(BUILT, "leased-worker.js"), [root, kind, String(LEASE_MS)]);
  onTestFinished(() => void worker.child.kill("SIGKILL"));
  await expect.poll(() => existsSync(join(root, "pids")), { timeout: 20_000 }).toBe(true);
  return { worker, pids: readFileSync(join(root, "pids"), "utf8").trim().split(" ").map(Number) };
}

/** A zombie, dead and not yet collected by init, counts as gone. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync(`/proc/${pid}/stat`) || !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

async function outcomeOf(worker: RunningProgram): Promise<unknown> {
  for (;;) {
    const line = await worker.nextLine();
    if (line !== "renewed") return JSON.parse(line);
  }
}

describe.each(KINDS)("a %s that runs for a worker", (kind) => {
  test("goes on as long as the lease is renewed, and ends in time with all it started when only the worker is frozen", async () => {
    const { worker, pids } = await startRun(kind);
    for (let renewals = 0; renewals < 25; renewals++) expect(await worker.nextLine()).toBe("renewed");
    expect(pids.map(isAlive)).toEqual([true, true]);
    worker.child.kill("SIGSTOP");
    const frozenMs = machineMs();
    await expect.poll(() => pids.map(isAlive), { timeout: 10_000, interval: 10 }).toEqual([false, false]);
    const wentOnMs = machineMs() - frozenMs;
    // The last renewal was up to its interval before; the rest is for a machine with much to do.
    expect(wentOnMs).toBeGreaterThan(LEASE_MS / 2);
    expect(wentOnMs).toBeLessThan(LEASE_MS * 2);
    worker.child.kill("SIGCONT");
    expect(await outcomeOf(worker)).toEqual({ kind: "cut-off" });
  });
});

describe("a run in a process of its own", () => {
  const HANDLERS = {
    "forever.ts": "export default async (payload, ctx) => { await ctx.progress(1); for (;;); };",
    "exits.ts": "export default () => process.exit(3);",
  };

  test("ends at its deadline when a worker that lives cannot renew the lease, whatever its handler does", async () => {
    const bench = openWorkbench(HANDLERS);
    const keepUntilMs = performance.now() + 1_000;
    const run = await bench.start("forever.ts", { isolation: "process", keepUntilMs });
    expect(await run.outcome).toEqual({ kind: "cut-off" });
    expect(performance.now()).toBeGreaterThanOrEqual(keepUntilMs);
    expect(bench.logs.map(({ message }) => message)).toContain(
      "a handler process ended itself, since its lease had run out",
    );
  });

  test("that exits by itself before its deadline is a crash", async () => {
    const bench = openWorkbench(HANDLERS);
    expect(await bench.run("exits.ts", { isolation: "process", keepUntilMs: performance.now() + 60_000 })).toEqual({
      kind: "crashed",
      detail: "its process ended with exit code 3",
    });
  });
});

describe("what an exit says of a deadline", () => {
  const clock = { now: 0, monotonicMs: () => clock.now };

  test("is nothing before it has passed, and that it was kept once a process was killed after it", () => {
    clock.now = 5_000;
    const deadline = new LeaseDeadline(clock);
    expect(deadline.explains("SIGKILL")).toBe(false);
    deadline.set(65_000);
    expect(deadline.explains("SIGKILL")).toBe(false);
    deadline.set(5_000);
    expect(deadline.explains("SIGKILL")).toBe(true);
    expect([deadline.explains("SIGSEGV"), deadline.explains(null)]).toEqual([false, false]);
  });

  test("stays so when a renewal of before is heard of later", () => {
    clock.now = 5_000;
    const deadline = new LeaseDeadline(clock);
    deadline.set(4_000);
    deadline.set(65_000);
    expect(deadline.explains("SIGKILL")).toBe(true);
  });
});
