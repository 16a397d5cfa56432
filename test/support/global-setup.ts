import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { startEmbeddedPostgres } from "../../runtime/adapters/embedded/embedded-postgres.ts";
import { isPostmasterAlive, readOwner, readPostmasterFile } from "../../runtime/adapters/embedded/postmaster-file.ts";
import { migrate } from "../../runtime/adapters/postgres/migrate.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import "./database.ts";
import "./services/for-tests.ts";
import { openServiceDesk } from "./services/service-desk.ts";

const FOLDER_PREFIX = "turno-test-";
const STARTING_LIMIT_MS = 120_000;
const TEMPLATE = "turno_template";

/**
 * One PostgreSQL for the whole run, with a migrated template that test databases are copied from, and a desk where test
 * files ask for other services.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await removeAbandonedServers();
  const folder = await mkdtemp(join(tmpdir(), FOLDER_PREFIX));
  const server = await startEmbeddedPostgres({
    dataDir: join(folder, "postgres"),
    logger: silentLogger,
    durable: false,
    signal: new AbortController().signal,
  });
  const { connectionString } = server.address;
  await createTemplate(connectionString);
  project.provide("postgres", { connectionString, template: TEMPLATE });
  const desk = await openServiceDesk();
  project.provide("services", desk.url);
  return async () => {
    await desk.close();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
}

async function createTemplate(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  await client.query(`create database ${TEMPLATE}`);
  await client.end();
  const url = new URL(connectionString);
  url.pathname = `/${TEMPLATE}`;
  await migrate({ connectionString: url.href }, silentLogger);
}

/** A run that was killed leaves its server behind: it is ended, and its folder removed. */
async function removeAbandonedServers(): Promise<void> {
  for (const entry of await readdir(tmpdir())) {
    if (!entry.startsWith(FOLDER_PREFIX)) continue;
    const folder = join(tmpdir(), entry);
    const dataDir = join(folder, "postgres");
    const server = await readPostmasterFile(dataDir);
    if ((await readOwner(dataDir)) !== "none") continue;
    // A run that is just starting has no owner yet.
    const { mtimeMs } = await stat(folder).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs < STARTING_LIMIT_MS) continue;
    if (server !== null && (await isPostmasterAlive(dataDir, server.pid))) process.kill(server.pid, "SIGQUIT");
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}
