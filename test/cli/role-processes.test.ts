import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type RoleProcesses, superviseRoles } from "../../runtime/cli/role-processes.ts";
import type { Logger } from "../../runtime/core/logger.ts";
import { eventually } from "../support/up.ts";

/** What a role may do: it notes each start, and the rest is in its first argument. */
const ROLE = `
import { appendFileSync } from "node:fs";
const [, , how, notes] = process.argv;
appendFileSync(notes, process.pid + "\\n");
if (how === "fails") process.exit(7);
if (how === "deaf") process.on("SIGTERM", () => {});
else process.on("SIGTERM", () => process.exit(0));
process.on("disconnect", () => process.exit(0));
process.send({ kind: "ready", url: "http://localhost:1" });
setInterval(() => {}, 1000);
`;

let folder: string;
let notes: string;
let lines: Record<string, unknown>[];
let roles: RoleProcesses;

const logger: Logger = {
  debug: () => {},
  info: () => {},
  warn: (message, fields) => void lines.push({ message, ...fields }),
  error: (message, fields) => void lines.push({ message, ...fields }),
  child: () => logger,
};

function supervise(options: { readonly cwd?: string; readonly stopTimeoutMs?: number } = {}): RoleProcesses {
  return superviseRoles({
    entry: join(folder, "role.mjs"),
    cwd: options.cwd ?? folder,
    env: process.env,
    logger,
    stopTimeoutMs: options.stopTimeoutMs ?? 10_000,
    onOutput: () => {},
  });
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "turno roles "));
  notes = join(folder, "notes");
  lines = [];
  await writeFile(join(folder, "role.mjs"), ROLE);
  await writeFile(notes, "");
  roles = supervise();
});
afterEach(async () => {
  await roles.stop();
  await rm(folder, { recursive: true, force: true });
});

const pids = async (): Promise<number[]> => (await readFile(notes, "utf8")).split("\n").filter(Boolean).map(Number);
const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe("roles under a supervisor", () => {
  test("are started again when they die, with a wait that doubles", async () => {
    const told: (string | null)[] = [];
    const first = await roles.start({
      role: "worker",
      args: ["lives", notes],
      onReadyAgain: ({ url }) => void told.push(url),
    });
    expect(first.url).toBe("http://localhost:1");
    for (let starts = 1; starts <= 2; starts++) {
      const found = await eventually("another start", async () => {
        const all = await pids();
        return all.length === starts && isAlive(all.at(-1) ?? 0) && all;
      });
      process.kill(found.at(-1) ?? 0, "SIGKILL");
    }
    await eventually("the third start", async () => (await pids()).length === 3 && told.length === 2);
    expect(told).toEqual([first.url, first.url]);
    expect(lines).toMatchObject([
      { role: "worker", how: "SIGKILL", inMs: 200 },
      { role: "worker", how: "SIGKILL", inMs: 400 },
    ]);
  });

  test("that end before they are ready are told to whoever starts them, and are not started again", async () => {
    await expect(roles.start({ role: "server", args: ["fails", notes] })).rejects.toThrow(
      "the server ended before it was ready (exit 7)",
    );
    expect(await pids()).toHaveLength(1);
    expect(lines).toEqual([]);
  });

  test("that cannot be started at all are told as well, and do not hold up the stop", async () => {
    roles = supervise({ cwd: join(folder, "gone") });
    await expect(roles.start({ role: "server", args: ["lives", notes] })).rejects.toThrow(/ENOENT/);
    await roles.stop();
  });

  test("are killed when they do not stop in time", async () => {
    roles = supervise({ stopTimeoutMs: 100 });
    await roles.start({ role: "worker", args: ["deaf", notes] });
    const [pid = 0] = await pids();
    await roles.stop();
    expect(isAlive(pid)).toBe(false);
  });

  test("are gone at once when their supervisor has no time", async () => {
    await roles.start({ role: "worker", args: ["deaf", notes] });
    const [pid = 0] = await pids();
    roles.kill();
    await eventually("the end of the role", async () => !isAlive(pid));
    expect(lines).toEqual([]);
  });
});
