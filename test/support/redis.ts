import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import { claimPorts, freePort, type PortBlock } from "../../chaos/ports.ts";
import { FaultProxy } from "../../chaos/proxy.ts";

/** A redis-server of its own: in memory, on a port that it keeps over restarts. */
export interface TestRedis {
  readonly port: number;
  /** Answers as the server sees it, past every fault. */
  readonly admin: Redis;
  /** Between a program and the server; passes everything until told otherwise. */
  readonly proxy: FaultProxy;
  /** Stops it in the middle of whatever it does; its connections stay open. */
  freeze(): void;
  thaw(): void;
  /** Kills and starts it again, without what it held. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface RedisArguments {
  readonly args?: readonly string[];
  readonly password?: string;
}

/** Fails with what to install where there is no redis-server. */
export async function startRedis({ args = [], password }: RedisArguments = {}): Promise<TestRedis> {
  const folder = await mkdtemp(join(tmpdir(), "turno-redis-"));
  const block = await claimPorts();
  const port = await freePort(block);
  const path = join(folder, "redis.sock");
  const all = ["--port", String(port), "--bind", "127.0.0.1", "--unixsocket", path, "--dir", folder, "--save", ""];
  const command = [...all, ...(password === undefined ? [] : ["--requirepass", password]), ...args];
  let server = await launch(command);
  const proxy = await FaultProxy.open({ path }, { first: port + 1, last: block.last });
  const admin = new Redis({ path, ...(password === undefined ? {} : { password }), retryStrategy: () => 20 });
  admin.on("error", () => {});
  return {
    port,
    admin,
    proxy,
    freeze: () => void server.kill("SIGSTOP"),
    thaw: () => void server.kill("SIGCONT"),
    async restart() {
      await end(server);
      server = await launch(command);
    },
    async stop() {
      admin.disconnect();
      await proxy.close();
      await end(server);
      await release(block, folder);
    },
  };
}

async function launch(command: readonly string[]): Promise<ChildProcess> {
  const child = spawn("redis-server", command, { stdio: ["ignore", "pipe", "inherit"] });
  const failed = once(child, "error").then(([error]) => {
    throw new Error("expected redis-server on the PATH, found none: apt-get install redis-server", { cause: error });
  });
  const ended = once(child, "exit").then(() => {
    throw new Error("redis-server ended while it started");
  });
  await Promise.race([untilReady(child), failed, ended]);
  failed.catch(() => {});
  ended.catch(() => {});
  return child;
}

async function untilReady(child: ChildProcess): Promise<void> {
  if (child.stdout === null) throw new Error("redis-server has no output");
  const lines = createInterface({ input: child.stdout });
  await new Promise<void>((ready) => {
    lines.on("line", (line) => line.includes("Ready to accept connections") && ready());
  });
}

async function end(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const gone = once(server, "exit");
  server.kill("SIGKILL");
  await gone;
}

async function release(block: PortBlock, folder: string): Promise<void> {
  await block.release();
  await rm(folder, { recursive: true, force: true });
}
