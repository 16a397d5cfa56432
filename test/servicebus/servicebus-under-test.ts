import { claimPorts } from "../../chaos/ports.ts";
import { FaultProxy } from "../../chaos/proxy.ts";
import { openServiceBusBroker, type ServiceBusBrokerOptions } from "../../runtime/adapters/servicebus/broker.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { BrokerProcess, BrokerUnderTest } from "../contract/broker-under-test.ts";
import { type ServiceBusServer, startServiceBusServer } from "../support/servicebus-server.ts";
import { passMoment } from "../support/services/passing-time.ts";

const PREFIX = "turno-test";

export function serviceBusOptions(server: ServiceBusServer, installation: string): ServiceBusBrokerOptions {
  return { connectionString: server.connectionString(), prefix: PREFIX, installation, logger: silentLogger };
}

/** Processes that reach a server on this machine through a network of their own each. */
export async function openServiceBusUnderTest(): Promise<BrokerUnderTest> {
  const block = await claimPorts();
  const server = await startServiceBusServer();
  const processes: { readonly process: BrokerProcess; readonly proxy: FaultProxy }[] = [];
  const textsOf = (messages: readonly { readonly body: Buffer }[]) => messages.map(({ body }) => body.toString());
  server.createQueue(`${PREFIX}-dead-letter`);
  return {
    async open(installation) {
      for (const queue of ["email", "reports"]) server.createQueue(`${PREFIX}-${installation}-${queue}`);
      const proxy = await FaultProxy.open({ port: server.port }, block);
      const broker = await openServiceBusBroker({
        ...serviceBusOptions(server, installation),
        connectionString: server.connectionString(proxy.port),
      });
      const process: BrokerProcess = {
        broker,
        async cut() {
          const before = proxy.mode;
          await proxy.setMode({ kind: "reset" });
          await proxy.setMode(before);
        },
        silence: () => proxy.setMode({ kind: "black-hole" }),
        isolate: () => proxy.setMode({ kind: "refuse" }),
        mend: () => proxy.setMode({ kind: "pass" }),
        kill: () => proxy.setMode({ kind: "refuse" }),
      };
      processes.push({ process, proxy });
      return process;
    },
    pass: passMoment,
    putText: async (installation, queue, text) => server.put(`${PREFIX}-${installation}-${queue}`, text),
    readErrors: async (installation) => textsOf(server.deadLetters(`${PREFIX}-${installation}-email`)),
    readDeadLetters: async () => textsOf(server.messages(`${PREFIX}-dead-letter`)),
    removeQueue: null,
    block: null,
    countsWaitingOnly: false,
    knowsDepth: false,
    async close() {
      await Promise.all(processes.map(({ process }) => process.broker.close()));
      for (const { proxy } of processes) await proxy.close();
      await server.close();
      await block.release();
    },
  };
}
