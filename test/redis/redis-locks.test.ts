import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { openRedisLocks, type RedisLockOptions } from "../../runtime/adapters/redis/locks.ts";
import type { LockManager } from "../../runtime/protocol/ports/transport.ts";
import { acquire } from "../contract/lock-contract.ts";
import { recordLogger } from "../support/log-recorder.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { eventually } from "../support/up.ts";

const TRY_MS = 300;
/** A deadline, and what a busy machine may add to it. */
const IN_TIME_MS = 1_500;

let servers: readonly TestRedis[] = [];
let installation: string;

beforeAll(async () => {
  servers = [await startRedis(), await startRedis(), await startRedis()];
});
afterAll(async () => {
  for (const server of servers) await server.stop();
});
beforeEach(() => {
  installation = randomUUID();
  onTestFinished(async () => {
    for (const { proxy } of servers) await proxy.setMode({ kind: "pass" });
  });
});

function open(nodes: 1 | 3, options: Partial<RedisLockOptions> = {}) {
  const urls = servers.slice(0, nodes).map(({ proxy }) => `redis://127.0.0.1:${proxy.port}`);
  const { logger, lines } = recordLogger();
  const locks = openRedisLocks({ urls, prefix: "turno", installation, expiryMs: 30_000, logger, ...options });
  onTestFinished(() => locks.close());
  return { locks, lines };
}

function node(index: number): TestRedis {
  const server = servers[index];
  if (server === undefined) throw new Error(`there is no node ${index}`);
  return server;
}

const keyOf = (resource: string) => `turno:${installation}:${resource}`;

async function untilAllAnswer(locks: LockManager): Promise<void> {
  await eventually("all nodes answer", async () => {
    await locks.acquire(`look:${randomUUID()}`);
    const { nodes, answering } = locks.condition();
    return nodes === answering;
  });
}

/** A try is over once more than half have voted; the last may still be at it. */
async function untilFree(resource: string, at: readonly TestRedis[] = servers): Promise<void> {
  await eventually(`${resource} is locked nowhere`, async () => {
    const found = await Promise.all(at.map(({ admin }) => admin.exists(keyOf(resource))));
    return found.every((count) => count === 0);
  });
}

async function timed<Value>(work: () => Promise<Value>): Promise<{ readonly value: Value; readonly ms: number }> {
  const startedAt = performance.now();
  const value = await work();
  return { value, ms: performance.now() - startedAt };
}

test("a lock's key names prefix, installation and resource, lives for the expiry, and its release deletes it", async () => {
  const { locks } = open(3);
  const held = await acquire(locks, "job:1");
  for (const { admin } of servers) {
    await eventually("every node has it", async () => (await admin.exists(keyOf("job:1"))) === 1);
    const left = await admin.pttl(keyOf("job:1"));
    expect(left).toBeGreaterThan(20_000);
    expect(left).toBeLessThanOrEqual(30_000);
  }
  await held.release();
  await untilFree("job:1");
});

test("a held lock is extended past its expiry, and busy all the while", async () => {
  const { locks } = open(1, { expiryMs: 900 });
  const { locks: others } = open(1);
  await acquire(locks, "job:1");
  const { admin } = node(0);
  let before = await admin.pttl(keyOf("job:1"));
  let extensions = 0;
  await eventually("it was extended four times", async () => {
    const left = await admin.pttl(keyOf("job:1"));
    if (left > before) extensions += 1;
    before = left;
    return extensions >= 4;
  });
  expect((await others.acquire("job:1")).kind).toBe("busy");
});

test("a lock whose holder is cut off runs out by itself", async () => {
  const { locks } = open(1, { expiryMs: 600 });
  await acquire(locks, "job:1");
  await node(0).proxy.setMode({ kind: "black-hole" });
  await eventually("it ran out", async () => (await node(0).admin.exists(keyOf("job:1"))) === 0);
});

test("latency below the deadline is waited for", async () => {
  const { locks } = open(3);
  await untilAllAnswer(locks);
  for (const { proxy } of servers) await proxy.setMode({ kind: "latency", ms: 30 });
  const held = await acquire(locks, "job:1");
  await held.release();
});

test("an answer after the deadline is unavailable in time, and what it locked is given back", async () => {
  const { locks } = open(1, { tryMs: TRY_MS });
  await untilAllAnswer(locks);
  await node(0).proxy.setMode({ kind: "latency", ms: 400 });
  const { value, ms } = await timed(() => locks.acquire("job:1"));
  expect(value.kind).toBe("unavailable");
  expect(ms).toBeLessThan(IN_TIME_MS);
  await node(0).proxy.setMode({ kind: "pass" });
  await untilAllAnswer(locks);
  await untilFree("job:1");
});

test("a node in a black hole costs one deadline and is then known to be silent", async () => {
  const { locks, lines } = open(1);
  await untilAllAnswer(locks);
  await node(0).proxy.setMode({ kind: "black-hole" });
  const first = await timed(() => locks.acquire("job:1"));
  expect(first.value.kind).toBe("unavailable");
  expect(first.ms).toBeLessThan(IN_TIME_MS);
  expect(locks.condition()).toEqual({ nodes: 1, answering: 0 });
  const next = await timed(async () => {
    for (let index = 0; index < 50; index += 1) await locks.acquire(`job:${index}`);
  });
  expect(next.ms).toBeLessThan(50 * TRY_MS * 0.1);
  await node(0).proxy.setMode({ kind: "pass" });
  await untilAllAnswer(locks);
  expect(lines.map(({ level, message }) => `${level} ${message}`)).toEqual([
    "warn a lock node is away",
    "info a lock node answers again",
  ]);
});

test("a connection that went silent is given up and replaced", async () => {
  const { locks } = open(1);
  await untilAllAnswer(locks);
  await node(0).proxy.setMode({ kind: "one-way", silent: "down" });
  await locks.acquire("job:1");
  await eventually("the connection was given up", async () => {
    const clients = String(await node(0).admin.client("LIST"));
    return !clients.includes("cmd=evalsha") && !clients.includes("cmd=eval");
  });
  await node(0).proxy.setMode({ kind: "pass" });
  await untilAllAnswer(locks);
});

test("a connection that is cut while answers are on their way is unavailable at once, and the next is made", async () => {
  const { locks } = open(1);
  await untilAllAnswer(locks);
  await node(0).proxy.setMode({ kind: "cut", afterBytes: 0 });
  const { value, ms } = await timed(() => locks.acquire("job:1"));
  expect(value.kind).toBe("unavailable");
  expect(ms).toBeLessThan(IN_TIME_MS);
  await node(0).proxy.setMode({ kind: "pass" });
  await untilAllAnswer(locks);
});

test("with one of three nodes away locks are acquired and extended, and are busy for others", async () => {
  const { locks } = open(3, { expiryMs: 900 });
  const { locks: others } = open(3);
  await node(0).proxy.setMode({ kind: "refuse" });
  await acquire(locks, "job:1");
  expect((await others.acquire("job:1")).kind).toBe("busy");
  const { admin } = node(1);
  let before = await admin.pttl(keyOf("job:1"));
  await eventually("it was extended", async () => {
    const left = await admin.pttl(keyOf("job:1"));
    const isExtended = left > before;
    before = left;
    return isExtended;
  });
});

test("with one of three nodes hanging a try waits for the other two only", async () => {
  const { locks } = open(3);
  await untilAllAnswer(locks);
  node(0).freeze();
  onTestFinished(() => node(0).thaw());
  const { value, ms } = await timed(() => locks.acquire("job:1"));
  expect(value.kind).toBe("acquired");
  expect(ms).toBeLessThan(TRY_MS * 0.6);
});

test("with one of three nodes hanging a contested lock is busy within the deadline", async () => {
  const { locks } = open(3);
  await untilAllAnswer(locks);
  // Somebody else has one of the two that answer: neither has more than half.
  await node(1).admin.set(keyOf("job:1"), "somebody else");
  node(0).freeze();
  onTestFinished(() => node(0).thaw());
  expect((await locks.acquire("job:1")).kind).toBe("busy");
  await untilFree("job:1", [node(2)]);
});

test("with two of three nodes away a try is unavailable and the third keeps nothing of it", async () => {
  const { locks } = open(3);
  await untilAllAnswer(locks);
  await node(0).proxy.setMode({ kind: "refuse" });
  await node(1).proxy.setMode({ kind: "refuse" });
  expect((await locks.acquire("job:1")).kind).toBe("unavailable");
  await untilFree("job:1", [node(2)]);
  expect(locks.condition()).toEqual({ nodes: 3, answering: 1 });
  await node(1).proxy.setMode({ kind: "pass" });
  await eventually("a lock is acquired without a restart", async () => {
    return (await locks.acquire("job:2")).kind === "acquired";
  });
});

test("a hanging node costs one deadline, and nothing of the tries that were given up stays when it goes on", async () => {
  const { locks } = open(1);
  await untilAllAnswer(locks);
  node(0).freeze();
  onTestFinished(() => node(0).thaw());
  const kinds = await Promise.all(
    Array.from({ length: 20 }, async (_, index) => (await locks.acquire(`job:${index}`)).kind),
  );
  expect(new Set(kinds)).toEqual(new Set(["unavailable"]));
  node(0).thaw();
  await untilAllAnswer(locks);
  await eventually("no job is locked", async () => (await node(0).admin.keys(keyOf("job:*"))).length === 0);
});

test("a node that was hanging when the locks were opened is used once it goes on", async () => {
  node(0).freeze();
  onTestFinished(() => node(0).thaw());
  const { locks } = open(1);
  expect((await locks.acquire("job:1")).kind).toBe("unavailable");
  node(0).thaw();
  await untilAllAnswer(locks);
});

test("closing ends in time though a node hangs, gives back what is held, and later tries are unavailable", async () => {
  const { locks } = open(3);
  await acquire(locks, "job:1");
  node(0).freeze();
  onTestFinished(() => node(0).thaw());
  const { ms } = await timed(() => locks.close());
  expect(ms).toBeLessThan(IN_TIME_MS);
  await untilFree("job:1", [node(1), node(2)]);
  expect((await locks.acquire("job:1")).kind).toBe("unavailable");
});

test("when all data is lost another may get the lock, and the first holder's release leaves it alone", async () => {
  const { locks } = open(3);
  const { locks: others } = open(3);
  const first = await acquire(locks, "job:1");
  for (const server of servers) await server.restart();
  await untilAllAnswer(others);
  const second = await acquire(others, "job:1");
  await untilAllAnswer(locks);
  await first.release();
  expect(await node(0).admin.exists(keyOf("job:1"))).toBe(1);
  await second.release();
});

test("a node that lost its data learns a held lock again with the next extension", async () => {
  const { locks } = open(3, { expiryMs: 900 });
  const held = await acquire(locks, "job:1");
  const value = await eventually("the second node has it too", () => node(1).admin.get(keyOf("job:1")));
  await node(0).restart();
  await eventually("it is locked there again", async () => (await node(0).admin.get(keyOf("job:1"))) === value);
  await held.release();
  await untilFree("job:1");
});

test("an extension does not take over what another holds meanwhile", async () => {
  const { locks } = open(1, { expiryMs: 900 });
  const { admin } = node(0);
  await acquire(locks, "job:1");
  await admin.set(keyOf("job:1"), "somebody else");
  await acquire(locks, "job:2");
  let before = await admin.pttl(keyOf("job:2"));
  await eventually("the other lock was extended", async () => {
    const left = await admin.pttl(keyOf("job:2"));
    const isExtended = left > before;
    before = left;
    return isExtended;
  });
  expect(await admin.get(keyOf("job:1"))).toBe("somebody else");
});

test("a lock that was too long under way to be valid is given back", async () => {
  let nowMs = 0;
  // Every look at the clock finds it 20 s later, as after a machine that slept.
  const { locks } = open(1, { monotonicMs: () => (nowMs += 20_000) });
  expect((await locks.acquire("job:1")).kind).toBe("unavailable");
  await untilFree("job:1");
});

test("a node that takes no writes is away with its reason, and is back when it takes them again", async () => {
  const { locks, lines } = open(1);
  await untilAllAnswer(locks);
  await node(0).admin.config("SET", "min-replicas-to-write", "1");
  onTestFinished(async () => void (await node(0).admin.config("SET", "min-replicas-to-write", "0")));
  expect((await locks.acquire("job:1")).kind).toBe("unavailable");
  expect(locks.condition()).toEqual({ nodes: 1, answering: 0 });
  expect(lines[0]).toMatchObject({ level: "warn", message: "a lock node is away" });
  expect(String(lines[0]?.fields.reason)).toContain("NOREPLICAS");
  await node(0).admin.config("SET", "min-replicas-to-write", "0");
  await eventually("it answers", async () => locks.condition().answering === 1);
});
