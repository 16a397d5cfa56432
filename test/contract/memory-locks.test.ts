import { createMemoryLocks } from "../../runtime/adapters/memory/locks.ts";
import { lockContract } from "./lock-contract.ts";

lockContract("memory", async () => {
  const locks = createMemoryLocks();
  return {
    nodes: 1,
    connect: () => locks,
    async takeAway(nodes) {
      locks.away = nodes > 0;
    },
  };
});
