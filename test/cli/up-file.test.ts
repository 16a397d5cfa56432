import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { inspectProcess } from "../../runtime/adapters/embedded/process-table.ts";
import { claimUpFile, readUpFile } from "../../runtime/cli/up-file.ts";

let folder: string;
let path: string;
let other: ChildProcess | null = null;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "turno up "));
  path = join(folder, "run", "up.json");
});
afterEach(async () => {
  if (other !== null) {
    const exited = once(other, "exit");
    other.kill("SIGKILL");
    await exited;
  }
  other = null;
  await rm(folder, { recursive: true, force: true });
});

async function leave(facts: object): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, JSON.stringify({ url: null, databaseUrl: null, ...facts }));
}

/** Another living process, with what tells it from a later one of its number. */
async function startOther(): Promise<{ readonly pid: number; readonly stamp: string }> {
  other = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  await once(other, "spawn");
  const pid = other.pid ?? 0;
  return { pid, stamp: (await inspectProcess(pid))?.stamp ?? "" };
}

describe("the claim of a folder", () => {
  test("tells other commands where Turno runs, and nobody else", async () => {
    const claim = await claimUpFile(path);
    expect(await readUpFile(path)).toMatchObject({ pid: process.pid, url: null, databaseUrl: null });
    await claim.tell({ url: "http://localhost:1", databaseUrl: "postgres:///socket" });
    expect(await readUpFile(path)).toMatchObject({ url: "http://localhost:1", databaseUrl: "postgres:///socket" });
    expect((await stat(path)).mode & 0o077).toBe(0);
    await claim.release();
    expect(await readUpFile(path)).toBeNull();
    expect(await readdir(dirname(path))).toEqual([]);
  });

  test("is refused while another process has it, whose file is left alone", async () => {
    await leave({ ...(await startOther()), url: "http://localhost:7" });
    const before = await readFile(path, "utf8");
    await expect(claimUpFile(path)).rejects.toMatchObject({
      code: "TURNO_ALREADY_RUNNING",
      message: expect.stringContaining("http://localhost:7"),
    });
    expect(await readFile(path, "utf8")).toBe(before);
  });

  test("is taken over from a process that was killed, also when its number belongs to another one by now", async () => {
    const { pid } = await startOther();
    // In a container every start has the number of the one before.
    for (const stale of [
      { pid, stamp: "1" },
      { pid: process.pid, stamp: "1" },
      { pid: 2 ** 22 + 1, stamp: "1" },
    ]) {
      await leave(stale);
      expect(await readUpFile(path)).toBeNull();
      const claim = await claimUpFile(path);
      expect((await readUpFile(path))?.pid).toBe(process.pid);
      await claim.release();
    }
  });

  test("is given to one of many that come at once, whether or not a stale file is there", async () => {
    for (const stale of [false, true, true, true]) {
      if (stale) await leave({ pid: process.pid, stamp: "1" });
      const claims = await Promise.allSettled(Array.from({ length: 8 }, () => claimUpFile(path)));
      const given = claims.flatMap((claim) => (claim.status === "fulfilled" ? [claim.value] : []));
      expect(given).toHaveLength(1);
      await given[0]?.release();
    }
  });

  test("does not wait for a process that was killed while it looked", async () => {
    await mkdir(`${path}.lock`, { recursive: true });
    const old = new Date(Date.now() - 60_000);
    await utimes(`${path}.lock`, old, old);
    await (await claimUpFile(path)).release();
    expect(await readdir(dirname(path))).toEqual([]);
  });

  test("is not released by whoever has lost it", async () => {
    const claim = await claimUpFile(path);
    await leave(await startOther());
    await claim.release();
    expect((await readUpFile(path))?.pid).toBe(other?.pid);
  });

  test("counts a file without sense as none", async () => {
    await leave({});
    await writeFile(path, "half");
    expect(await readUpFile(path)).toBeNull();
    await (await claimUpFile(path)).release();
  });

  test("of another user says so instead of that nothing runs", async () => {
    await leave(await startOther());
    await chmod(dirname(path), 0);
    const found = await readUpFile(path).catch((error: unknown) => error);
    // Root reads everything.
    if (process.getuid?.() === 0) expect(found).toMatchObject({ pid: other?.pid });
    else expect(found).toMatchObject({ code: "TURNO_DATABASE_UNREACHABLE" });
    await chmod(dirname(path), 0o700);
  });
});
