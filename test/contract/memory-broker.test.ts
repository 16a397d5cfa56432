import { createMemoryBroker } from "../../runtime/adapters/memory/broker.ts";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { createVirtualClock } from "../../runtime/adapters/memory/virtual-clock.ts";
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
    close: async () => {},
  };
});
