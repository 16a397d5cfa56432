import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { openRedisLocks } from "../../runtime/adapters/redis/locks.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { lockContract } from "./lock-contract.ts";

let servers: readonly TestRedis[] = [];

beforeAll(async () => {
  servers = [await startRedis(), await startRedis(), await startRedis()];
});
afterAll(async () => {
  for (const server of servers) await server.stop();
});

for (const nodes of [1, 3]) {
  lockContract(`Redis, ${nodes} ${nodes === 1 ? "node" : "nodes"}`, async () => {
    const used = servers.slice(0, nodes);
    const installation = randomUUID();
    return {
      nodes,
      connect() {
        const urls = used.map(({ proxy }) => `redis://127.0.0.1:${proxy.port}`);
        const locks = openRedisLocks({ urls, prefix: "turno", installation, expiryMs: 30_000, logger: silentLogger });
        onTestFinished(() => locks.close());
        return locks;
      },
      async takeAway(count) {
        for (const [index, { proxy }] of used.entries()) {
          await proxy.setMode({ kind: index < count ? "refuse" : "pass" });
        }
      },
    };
  });
}
