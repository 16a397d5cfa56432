import { describe, expect, it } from "vitest";
import { createMemoryBroker, type MemoryBrokerFaults } from "../../runtime/adapters/memory/broker.ts";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { createVirtualClock } from "../../runtime/adapters/memory/virtual-clock.ts";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import type { DispatchMessage } from "../../runtime/protocol/ports/transport.ts";
import { brokerContract } from "./broker-contract.ts";
import type { BrokerUnderTest } from "./broker-under-test.ts";

brokerContract("memory", async (): Promise<BrokerUnderTest> => {
  const clock = createVirtualClock();
  const brokers = new Map<string, ReturnType<typeof createMemoryBroker>>();
  const brokerOf = (installation: string) => {
    const broker = brokers.get(installation) ?? createMemoryBroker({ clock, random: seededRandom(7) });
    brokers.set(installation, broker);
    return broker;
  };
  return {
    async open(installation) {
      const broker = brokerOf(installation).connect();
      return {
        broker,
        cut: async () => broker.cut(),
        silence: async () => broker.setNetwork("silent"),
        isolate: async () => broker.setNetwork("away"),
        mend: async () => broker.setNetwork("up"),
        kill: async () => broker.kill(),
      };
    },
    pass: () => clock.advance(100),
    putText: async (installation, queue, text) => brokerOf(installation).putText(queue, text),
    readErrors: async (installation) => brokerOf(installation).errorQueue,
    readDeadLetters: async (installation) => brokerOf(installation).deadLetters.map((letter) => JSON.stringify(letter)),
    removeQueue: async (installation, queue) => brokerOf(installation).removeQueue(queue),
    block: async (isBlocked) => {
      for (const broker of brokers.values()) broker.setState(isBlocked ? "blocked" : "up");
    },
    countsWaitingOnly: true,
    knowsDepth: true,
    close: async () => {},
  };
});

describe("the faults of the broker in memory", () => {
  const dispatches = Array.from(
    { length: 200 },
    (_, index): DispatchMessage => ({
      kind: "dispatch",
      jobId: `01900000-0000-7000-8000-${String(index).padStart(12, "0")}` as JobId,
      token: BigInt(index) as DispatchToken,
      queue: "email",
    }),
  );
  const run = async (faults: Partial<MemoryBrokerFaults>, seed = 7) => {
    const clock = createVirtualClock();
    const server = createMemoryBroker({ clock, random: seededRandom(seed) });
    Object.assign(server.faults, faults);
    const tokens: number[] = [];
    const connection = server.connect();
    const publishing = connection.publish(dispatches);
    await clock.advance(10_000);
    connection.subscribe("email", 10, ({ message, acknowledge }) => {
      if (message.kind === "dispatch") tokens.push(Number(message.token));
      void acknowledge();
    });
    await clock.advance(100_000);
    return { outcomes: await publishing, tokens };
  };

  it("come from the seed: the same again with the same one", async () => {
    const faults = { drop: 0.2, duplicate: 0.2, reorder: 0.2, loseConfirm: 0.2, delayMs: 50 };
    expect(await run(faults)).toEqual(await run(faults));
    expect((await run(faults)).tokens).not.toEqual((await run(faults, 8)).tokens);
  });

  it("lose what was confirmed, bring it twice, or in another order", async () => {
    const lost = await run({ drop: 0.5 });
    expect(new Set(lost.outcomes)).toEqual(new Set(["confirmed"]));
    expect(lost.tokens.length).toBeLessThan(150);
    expect((await run({ duplicate: 0.5 })).tokens.length).toBeGreaterThan(250);
    const reordered = (await run({ reorder: 0.5 })).tokens;
    expect(reordered).not.toEqual([...reordered].sort((left, right) => left - right));
    expect(new Set(reordered).size).toBe(200);
  });

  it("keep a message whose publisher never learns that it arrived", async () => {
    const { outcomes, tokens } = await run({ loseConfirm: 0.5 });
    expect(new Set(outcomes)).toEqual(new Set(["confirmed", "unknown"]));
    expect(tokens.length).toBe(200);
  });

  it("purge what waits, and nothing of what comes after it", async () => {
    const clock = createVirtualClock();
    const server = createMemoryBroker({ clock, random: seededRandom(7) });
    const connection = server.connect();
    await connection.publish(dispatches);
    server.purge("email");
    expect(server.waiting("email")).toBe(0);
    expect(await connection.publish(dispatches.slice(0, 1))).toEqual(["confirmed"]);
    expect(server.waiting("email")).toBe(1);
  });
});
