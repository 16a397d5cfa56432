import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { claimPorts, freePorts } from "../../../chaos/ports.ts";
import { type GuardedProcess, startGuarded, untilReady } from "./guarded-process.ts";
import { findRedisProgram, REDIS_MISSING } from "./programs-of-services.ts";

/** Redis nodes that know nothing of one another, in memory. */
export interface RedisServers {
  readonly urls: readonly string[];
  remove(): Promise<void>;
}

/** Fails with what to install where there is none. */
export async function startRedisServers(count: number): Promise<RedisServers> {
  const program = findRedisProgram();
  if (program === null) throw new Error(REDIS_MISSING);
  const folder = await mkdtemp(join(tmpdir(), "turno-redis-"));
  const block = await claimPorts();
  const ports = await freePorts(block, count);
  const servers: GuardedProcess[] = [];
  const remove = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.stop()));
    await block.release();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    for (const port of ports) {
      const home = join(folder, String(port));
      await mkdir(home);
      const args = ["--port", String(port), "--bind", "127.0.0.1", "--dir", home, "--save", "", "--appendonly", "no"];
      const server = startGuarded(program, args, { folder });
      servers.push(server);
      const ready = new Promise<void>((resolve) => {
        server.child.stdout?.on("data", () => server.output().includes("eady to accept connections") && resolve());
      });
      await untilReady(server, ready, "redis-server");
    }
  } catch (error) {
    await remove();
    throw error;
  }
  return { urls: ports.map((port) => `redis://127.0.0.1:${port}`), remove };
}
