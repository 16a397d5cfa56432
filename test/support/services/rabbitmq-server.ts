import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { connect } from "amqplib";
import { claimPorts, freePorts } from "../../../chaos/ports.ts";
import { type GuardedProcess, startGuarded, untilReady } from "./guarded-process.ts";
import { findOnPath, findRabbitPrograms, RABBITMQ_MISSING } from "./programs-of-services.ts";

const STARTING_MS = 60_000;
const POLL_MS = 100;

/** A broker of its own: its ports, folders, node name and port mapper are nobody else's. */
export interface RabbitServer {
  readonly url: string;
  readonly port: number;
  /** `rabbitmqctl`; takes seconds. Resolves to what it printed. */
  control(...args: readonly string[]): Promise<string>;
  /** Ends it in order, or at once; what is durable stays. */
  halt(how: "stop" | "kill"): Promise<void>;
  start(): Promise<void>;
  /** Ends it and removes what it had. */
  remove(): Promise<void>;
}

/** For who set the variable, and wonders. */
const OWN = "\nTests that restart or starve a broker always start one of their own.";

/** Starts RabbitMQ, which takes about ten seconds. Fails with what to install where there is none. */
export async function startRabbitServer(): Promise<RabbitServer> {
  const programs = findRabbitPrograms();
  const mapper = findOnPath("epmd");
  if (programs === null || mapper === null) throw new Error(RABBITMQ_MISSING + OWN);
  const folder = await mkdtemp(join(tmpdir(), "turno-rabbitmq-"));
  const block = await claimPorts();
  const ports = await freePorts(block, 4);
  const [port = 0, mapping = 0] = ports;
  const env = await prepare(folder, ports);
  // Started by the broker it would be a daemon that stays.
  const epmd = startGuarded(mapper, ["-port", String(mapping), "-address", "127.0.0.1"], { env, folder });
  const url = `amqp://guest:guest@127.0.0.1:${port}`;
  let server: GuardedProcess | null = null;
  const start = async (): Promise<void> => {
    server = startGuarded(join(programs, "rabbitmq-server"), [], { env, folder });
    const over = new AbortController();
    await untilReady(server, answers(url, over.signal), "RabbitMQ").finally(() => over.abort());
  };
  const remove = async (): Promise<void> => {
    await server?.stop();
    await epmd.stop();
    await block.release();
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  };
  try {
    await start();
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    url,
    port,
    async control(...args) {
      const { stdout } = await promisify(execFile)(join(programs, "rabbitmqctl"), args, { env, cwd: folder });
      return stdout;
    },
    async halt(how) {
      await (how === "stop" ? server?.stop() : server?.kill());
      server = null;
    },
    start,
    remove,
  };
}

async function prepare(
  folder: string,
  [port, mapping, distribution, control]: readonly number[],
): Promise<NodeJS.ProcessEnv> {
  const config = join(folder, "rabbitmq.conf");
  const plugins = join(folder, "plugins");
  await mkdir(join(folder, "log"));
  await writeFile(plugins, "[].\n");
  await writeFile(
    config,
    `listeners.tcp.1 = 127.0.0.1:${port}
loopback_users = none
disk_free_limit.absolute = 50MB
log.console = true
log.console.level = warning
`,
  );
  return {
    PATH: process.env.PATH,
    LANG: "C.UTF-8",
    // Holds the cookie with which the control program is let in.
    HOME: folder,
    ERL_EPMD_PORT: String(mapping),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    RABBITMQ_NODENAME: `turno-test-${port}@localhost`,
    RABBITMQ_DIST_PORT: String(distribution),
    RABBITMQ_CTL_DIST_PORT_MIN: String(control),
    RABBITMQ_CTL_DIST_PORT_MAX: String(Number(control) + 5),
    RABBITMQ_CONFIG_FILE: config,
    RABBITMQ_CONF_ENV_FILE: join(folder, "no-environment"),
    RABBITMQ_MNESIA_BASE: join(folder, "data"),
    RABBITMQ_LOG_BASE: join(folder, "log"),
    RABBITMQ_ENABLED_PLUGINS_FILE: plugins,
    RABBITMQ_PID_FILE: join(folder, "pid"),
    // Idle schedulers that spin cost the tests beside them their processor.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:
      "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
  };
}

async function answers(url: string, signal: AbortSignal): Promise<void> {
  const until = performance.now() + STARTING_MS;
  while (!signal.aborted) {
    try {
      const connection = await connect(url, { timeout: 2_000 });
      await connection.close();
      return;
    } catch (error) {
      if (performance.now() > until)
        throw new Error(`RabbitMQ did not answer within ${STARTING_MS} ms`, { cause: error });
      await delay(POLL_MS);
    }
  }
}
