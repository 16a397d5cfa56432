import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createGroupGuard } from "../../runtime/adapters/handlers/group-guard.ts";
import { machineMs } from "../../runtime/adapters/handlers/lease-deadline.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { bundleProgram, runProgram } from "../support/programs.ts";
import { makeFolder } from "./support.ts";

/** A process group that ends by force only. */
function startGroup(): ChildProcess & { readonly pid: number } {
  const child = spawn("/bin/sh", ["-c", "trap '' TERM HUP INT; sleep 300; sleep 300"], {
    detached: true,
    stdio: "ignore",
  });
  const pid = child.pid ?? 0;
  expect(pid).toBeGreaterThan(0);
  onTestFinished(() => {
    if (isAlive(pid)) process.kill(-pid, "SIGKILL");
  });
  return Object.assign(child, { pid });
}

/** Processes that guard, by the name their shell was given. */
function guardsOf(parent: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const status = readOrEmpty(`/proc/${pid}/status`);
      return readOrEmpty(`/proc/${pid}/cmdline`).includes("turno-guard") && status.includes(`PPid:\t${parent}\n`);
    });
}

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
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

test("a command with all it has started ends within a second after its worker was killed with SIGKILL", async () => {
  const root = makeFolder();
  const file = await bundleProgram(new URL("../support/handlers/guarded-worker.ts", import.meta.url));
  const worker = runProgram(file, [root]);
  expect(await worker.nextLine()).toBe("ready");
  await expect.poll(() => existsSync(join(root, "pids")), { timeout: 10_000 }).toBe(true);
  const pids = readFileSync(join(root, "pids"), "utf8").trim().split(" ").map(Number);
  expect(pids.map(isAlive)).toEqual([true, true]);
  worker.child.kill("SIGKILL");
  await expect.poll(() => pids.map(isAlive), { timeout: 10_000 }).toEqual([false, false]);
});

test("what was released, or is still guarded when the guard is closed, is left alone", async () => {
  const [ended, released, kept] = [startGroup(), startGroup(), startGroup()];
  const guard = createGroupGuard(silentLogger);
  for (const { pid } of [ended, released, kept]) guard.guard(pid);
  const [shell = 0] = guardsOf(process.pid);
  expect(shell).toBeGreaterThan(0);
  guard.release(released.pid);
  guard.release(released.pid);
  guard.close();
  await expect.poll(() => isAlive(shell), { timeout: 5_000 }).toBe(false);
  expect([ended, released, kept].map(({ pid }) => isAlive(pid))).toEqual([true, true, true]);
});

test("a guard that somebody ended is replaced with the next group, and told of the ones before", async () => {
  const guard = createGroupGuard(silentLogger);
  const [first, second] = [startGroup(), startGroup()];
  guard.guard(first.pid);
  const [shell = 0] = guardsOf(process.pid);
  process.kill(shell, "SIGTERM");
  expect(isAlive(shell)).toBe(true);
  process.kill(shell, "SIGKILL");
  await expect.poll(() => guardsOf(process.pid), { timeout: 5_000 }).toEqual([]);
  guard.guard(second.pid);
  const [replaced = 0] = guardsOf(process.pid);
  expect(replaced).not.toBe(shell);
  guard.close();
});

test("a group ends at its deadline, unless it was told a later one or released before", async () => {
  const [renewed, released, overdue] = [startGroup(), startGroup(), startGroup()];
  const guard = createGroupGuard(silentLogger);
  onTestFinished(() => guard.close());
  const soonMs = machineMs() + 300;
  for (const { pid } of [renewed, released, overdue]) {
    guard.guard(pid);
    guard.keepUntil(pid, soonMs);
  }
  guard.keepUntil(renewed.pid, soonMs + 60_000);
  guard.release(released.pid);
  guard.keepUntil(released.pid, soonMs);
  await expect.poll(() => isAlive(overdue.pid), { timeout: 5_000 }).toBe(false);
  expect(machineMs()).toBeGreaterThanOrEqual(soonMs);
  const later = startGroup();
  guard.guard(later.pid);
  guard.keepUntil(later.pid, machineMs());
  await expect.poll(() => isAlive(later.pid), { timeout: 5_000 }).toBe(false);
  expect([renewed, released].map(({ pid }) => isAlive(pid))).toEqual([true, true]);
});

test("a guard that replaces another one knows the deadlines of before", async () => {
  await expect.poll(() => guardsOf(process.pid), { timeout: 5_000 }).toEqual([]);
  const guard = createGroupGuard(silentLogger);
  onTestFinished(() => guard.close());
  const [first, second] = [startGroup(), startGroup()];
  guard.guard(first.pid);
  guard.keepUntil(first.pid, machineMs() + 1_500);
  const [shell = 0] = guardsOf(process.pid);
  process.kill(shell, "SIGKILL");
  await expect.poll(() => guardsOf(process.pid), { timeout: 5_000 }).toEqual([]);
  guard.guard(second.pid);
  await expect.poll(() => isAlive(first.pid), { timeout: 5_000 }).toBe(false);
  expect(isAlive(second.pid)).toBe(true);
});
