import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../runtime/adapters/embedded/embedded-postgres.ts";
import { silentLogger } from "../runtime/core/logger.ts";

/** Signals of PostgreSQL's postmaster: smart stops are never used, they would wait for the pools. */
const RESTARTS = { fast: "SIGINT", immediate: "SIGQUIT", kill: "SIGKILL" } as const;
const POOLER_PORT = 6432;

/** The effect store: `naive` takes everything, `fenced` only what carries a larger token than it has seen for the job. */
const SINK = `
create schema sink;
create table sink.naive (job text not null, fence bigint not null, at timestamptz not null default clock_timestamp());
create table sink.fenced (job text primary key, fence bigint not null);
create table sink.offers (seq bigint generated always as identity, job text not null, fence bigint not null, accepted boolean not null);
create function sink.offer(offered_job text, offered_fence bigint) returns boolean language plpgsql as $$
declare accepted boolean;
begin
  insert into sink.naive (job, fence) values (offered_job, offered_fence);
  insert into sink.fenced as f (job, fence) values (offered_job, offered_fence)
  on conflict (job) do update set fence = excluded.fence where f.fence < excluded.fence;
  accepted := found;
  insert into sink.offers (job, fence, accepted) values (offered_job, offered_fence, accepted);
  return accepted;
end $$`;

export interface Databases {
  /** What product connections are led to: the server's socket, or the pooler's. */
  readonly productSocket: string;
  readonly databaseName: string;
  /** For handlers, and not through any proxy. */
  readonly sinkAddress: string;
  restartPostgres(how: keyof typeof RESTARTS): void;
  /** Kills the pooler and starts it again; without one nothing happens. */
  restartPooler(downMs: number): Promise<void>;
  /** A connection of the oracle's own, past every proxy. */
  connect(which: "product" | "sink"): Promise<pg.Client>;
  stop(): Promise<void>;
}

/** Two embedded servers: the product's, durable, and the effect store's, which nothing ever happens to. */
export async function startDatabases(root: string, options: { readonly pgbouncer: string | null }): Promise<Databases> {
  const product = await startServer(join(root, "product"), true);
  const sink = await startServer(join(root, "sink"), false).catch(async (error: unknown) => {
    await product.stop();
    throw error;
  });
  const databaseName = "chaos";
  const productAddress = new URL(product.address.connectionString);
  const socketDir = productAddress.searchParams.get("host") ?? "";
  let pooler: Pooler | null = null;
  const stop = async (): Promise<void> => {
    await pooler?.stop();
    await product.stop();
    await sink.stop();
  };
  try {
    await runOnce(product.address.connectionString, `create database ${databaseName}`);
    await runOnce(sink.address.connectionString, SINK);
    productAddress.pathname = `/${databaseName}`;
    if (options.pgbouncer !== null) {
      pooler = await startPooler({
        program: options.pgbouncer,
        folder: join(root, "pooler"),
        socketDir,
        databaseName,
        dataDir: product.dataDir,
      });
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    productSocket: pooler?.socket ?? join(socketDir, ".s.PGSQL.5432"),
    databaseName,
    sinkAddress: sink.address.connectionString,
    restartPostgres(how) {
      try {
        process.kill(product.pid, RESTARTS[how]);
      } catch (error) {
        // It is down already and about to be started again.
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    },
    async restartPooler(downMs) {
      await pooler?.restart(downMs);
    },
    async connect(which) {
      const connectionString = which === "product" ? productAddress.href : sink.address.connectionString;
      const client = new pg.Client({ connectionString, application_name: "chaos-oracle" });
      client.on("error", () => {});
      await client.connect();
      return client;
    },
    stop,
  };
}

function startServer(dataDir: string, durable: boolean): Promise<EmbeddedPostgres> {
  return startEmbeddedPostgres({ dataDir, durable, logger: silentLogger, signal: new AbortController().signal });
}

async function runOnce(connectionString: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

interface Pooler {
  readonly socket: string;
  restart(downMs: number): Promise<void>;
  stop(): Promise<void>;
}

interface PoolerSettings {
  readonly program: string;
  readonly folder: string;
  readonly socketDir: string;
  readonly databaseName: string;
  /** It runs as the owner of this folder, since it refuses to run as root. */
  readonly dataDir: string;
}

async function startPooler({ program, folder, socketDir, databaseName, dataDir }: PoolerSettings): Promise<Pooler> {
  const owner = await stat(dataDir);
  const account = process.getuid?.() === 0 ? { uid: owner.uid, gid: owner.gid } : null;
  await mkdir(folder, { recursive: true });
  const settings = join(folder, "pgbouncer.ini");
  await writeFile(
    settings,
    `[databases]
${databaseName} = host=${socketDir} port=5432 user=turno dbname=${databaseName}
[pgbouncer]
listen_port = ${POOLER_PORT}
unix_socket_dir = ${folder}
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 40
ignore_startup_parameters = extra_float_digits
logfile = ${join(folder, "pgbouncer.log")}
`,
  );
  await chmod(settings, 0o644);
  if (account !== null) await chown(folder, account.uid, account.gid);
  let child = await spawnPooler();

  async function spawnPooler(): Promise<ChildProcess> {
    const spawned = spawn(program, ["-q", settings], { ...account, cwd: folder, detached: true, stdio: "ignore" });
    await once(spawned, "spawn");
    const socket = join(folder, `.s.PGSQL.${POOLER_PORT}`);
    for (let attempt = 0; attempt < 100; attempt += 1) {
      if (spawned.exitCode !== null)
        throw new Error(`pgbouncer ended with exit code ${spawned.exitCode}; see ${folder}/pgbouncer.log`);
      if ((await stat(socket).catch(() => null)) !== null) return spawned;
      await delay(50);
    }
    throw new Error(`pgbouncer did not open ${socket}`);
  }

  async function end(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  return {
    socket: join(folder, `.s.PGSQL.${POOLER_PORT}`),
    async restart(downMs) {
      await end();
      await delay(downMs);
      child = await spawnPooler();
    },
    stop: end,
  };
}
