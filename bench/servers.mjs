import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { startEmbeddedPostgres } from "../dist/runtime/adapters/embedded/embedded-postgres.js";
import { silentLogger } from "../dist/runtime/core/logger.js";
import { ROOT, SetupError } from "../scripts/project.mjs";
import { openPool } from "./postgres-pool.mjs";

const REDIS_MISSING =
  "redis-server was not found on the PATH, and BullMQ is measured on it: install it (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis)";

/** One durable PostgreSQL with a database for each contender, and one Redis as it comes, both only for this run. */
export async function startServers() {
  await mkdir(join(ROOT, ".turno"), { recursive: true });
  const folder = await mkdtemp(join(ROOT, ".turno", "bench-"));
  const redis = await startRedis(folder);
  const signal = new AbortController().signal;
  const postgres = await startEmbeddedPostgres({
    dataDir: join(folder, "postgres"),
    durable: true,
    logger: silentLogger,
    signal,
  });
  const admin = openPool(postgres.address.connectionString);
  const databases = [];
  const brokers = [];
  return {
    redis,
    folder,
    /** Name and value of what decides about speed and safety, as the server says it. */
    async settings() {
      const names = [
        "server_version",
        "fsync",
        "synchronous_commit",
        "full_page_writes",
        "shared_buffers",
        "max_wal_size",
      ];
      const { rows } = await admin.query("select name, setting, unit from pg_settings where name = any($1)", [names]);
      return Object.fromEntries(
        rows.map(({ name, setting, unit }) => [name, unit === null ? setting : `${setting} × ${unit}`]),
      );
    },
    async createDatabase(name) {
      await admin.query(`create database ${name}`);
      const url = new URL(postgres.address.connectionString);
      url.pathname = `/${name}`;
      databases.push(openPool(url.href));
      return url.href;
    },
    /** RabbitMQ and one Redis on TCP, for who asks. */
    async startBrokers() {
      const { startRabbitServer, startRedisServers } = await importServices();
      const rabbit = await startRabbitServer();
      brokers.push(rabbit);
      const nodes = await startRedisServers(1);
      brokers.push(nodes);
      return { rabbitUrl: rabbit.url, redisUrl: nodes.urls[0] };
    },
    /** What earlier runs left to be written and cleaned is not the next one's burden. */
    async settle() {
      for (const database of databases) await database.query("vacuum (analyze)");
      await admin.query("checkpoint");
    },
    async stop() {
      for (const broker of brokers) await broker.remove();
      for (const database of databases) await database.end();
      await admin.end();
      await postgres.stop();
      await redis.stop();
      await rm(postgres.dataDir, { recursive: true, force: true });
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The servers that the tests start, too. */
async function importServices() {
  const file = join(ROOT, "node_modules", ".cache", "turno-bench-services.mjs");
  await build({
    stdin: {
      contents:
        'export { startRabbitServer } from "./rabbitmq-server.ts"; export { startRedisServers } from "./redis-servers.ts";',
      resolveDir: join(ROOT, "test", "support", "services"),
    },
    outfile: file,
    bundle: true,
    packages: "external",
    format: "esm",
    platform: "node",
    logLevel: "error",
  });
  return import(pathToFileURL(file).href);
}

/** Without persistence: the fastest that Redis has, which is also what loses jobs in a crash. */
async function startRedis(folder) {
  // A socket's path may be no longer than about 100 bytes.
  const socketDir = await mkdtemp(join(tmpdir(), "turno-bench-"));
  const path = join(socketDir, "redis.sock");
  const args = [
    "--port",
    "0",
    "--unixsocket",
    path,
    "--save",
    "",
    "--appendonly",
    "no",
    "--dir",
    folder,
    "--daemonize",
    "no",
  ];
  const child = spawn("redis-server", args, { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve, reject) => {
    child.once("error", (error) => reject(error.code === "ENOENT" ? new SetupError(REDIS_MISSING) : error));
    child.once("exit", (code) => reject(new Error(`redis-server ended with exit code ${code}`)));
    child.stdout.on("data", (chunk) => {
      if (String(chunk).includes("eady to accept connections")) resolve();
    });
  });
  return {
    path,
    async stop() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
      await rm(socketDir, { recursive: true, force: true });
    },
  };
}
