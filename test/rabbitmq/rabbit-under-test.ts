import { connect } from "amqplib";
import { claimPorts } from "../../chaos/ports.ts";
import { FaultProxy } from "../../chaos/proxy.ts";
import { openRabbitBroker, type RabbitBrokerOptions } from "../../runtime/adapters/rabbitmq/broker.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { BrokerProcess, BrokerUnderTest } from "../contract/broker-under-test.ts";
import { passMoment } from "../support/services/passing-time.ts";

const PREFIX = "turno-test";
const NO_TLS = { ca: null, cert: null, key: null, serverName: null };

export interface RabbitUnderTest extends BrokerUnderTest {
  open(installation: string, options?: Partial<RabbitBrokerOptions>): Promise<BrokerProcess>;
}

export function rabbitOptions(url: string, installation: string): RabbitBrokerOptions {
  return { url, vhost: null, tls: NO_TLS, prefix: PREFIX, installation, logger: silentLogger };
}

/** Processes that reach a RabbitMQ on this machine through a network of their own each. */
export async function openRabbitUnderTest(url: string): Promise<RabbitUnderTest> {
  const block = await claimPorts();
  const port = Number(new URL(url).port);
  const admin = await connect(url);
  const channel = await admin.createChannel();
  const processes: { readonly process: BrokerProcess; readonly proxy: FaultProxy }[] = [];
  const installations = new Set<string>();
  const read = async (queue: string): Promise<readonly string[]> => {
    const texts: string[] = [];
    const reader = await admin.createChannel();
    for (;;) {
      const message = await reader.get(queue);
      if (message === false) break;
      if (!("x-turno-installation" in (message.properties.headers ?? {}))) throw new Error("whose message is it?");
      texts.push(message.content.toString());
    }
    // What was read goes back to its place.
    await reader.close();
    return texts;
  };
  return {
    async open(installation, options = {}) {
      installations.add(installation);
      const proxy = await FaultProxy.open({ port }, block);
      const through = new URL(options.url ?? url);
      through.port = String(proxy.port);
      const broker = await openRabbitBroker({
        ...rabbitOptions(through.href, installation),
        ...options,
        url: through.href,
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
    async putText(installation, queue, text) {
      channel.sendToQueue(`${PREFIX}.${installation}.${queue}`, Buffer.from(text));
    },
    readErrors: (installation) => read(`${PREFIX}.${installation}._error`),
    readDeadLetters: async () => read(`${PREFIX}-dead-letter`),
    async removeQueue(installation, queue) {
      await channel.deleteQueue(`${PREFIX}.${installation}.${queue}`);
    },
    block: null,
    countsWaitingOnly: true,
    knowsDepth: true,
    async close() {
      await Promise.all(processes.map(({ process }) => process.broker.close()));
      for (const { proxy } of processes) await proxy.close();
      for (const installation of installations) {
        for (const queue of ["email", "reports", "_error"])
          await channel.deleteQueue(`${PREFIX}.${installation}.${queue}`);
      }
      await channel.deleteQueue(`${PREFIX}-dead-letter`);
      await admin.close();
      await block.release();
    },
  };
}
