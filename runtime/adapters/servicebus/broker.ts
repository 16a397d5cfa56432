import { setTimeout as delay } from "node:timers/promises";
import type { ServiceBusClient } from "@azure/service-bus";
import type { Logger } from "../../core/logger.ts";
import type { Broker } from "../../protocol/ports/transport.ts";
import { readServiceBusAddress } from "./address.ts";
import { loadClients } from "./client.ts";
import { isLasting } from "./failures.ts";
import { openLink } from "./link.ts";
import { createPublisher } from "./publisher.ts";
import { createSubscription, type ServiceBusSubscription } from "./subscription.ts";
import { queueNames } from "./topology.ts";

/** Below what the relay gives a batch. */
const CONFIRM_MS = 10_000;
const CLOSE_MS = 2_000;

export interface ServiceBusBrokerOptions {
  /** Of the namespace; without a key the machine's managed identity is used. */
  readonly connectionString: string;
  /** First part of the names of queues. */
  readonly prefix: string;
  /** Second part: what nobody else's queues have. */
  readonly installation: string;
  readonly logger: Logger;
  /** For tests; 10 s. */
  readonly confirmMs?: number;
}

/**
 * A broker that keeps one connection to Azure Service Bus. Resolves when it is connected, or after a first attempt that
 * met nobody. Its queues are made by hand; one that is missing stops only its own messages.
 * Throws TURNO_BROKER_ADDRESS, TURNO_BROKER_PACKAGE and TURNO_BROKER_ACCESS for what waiting does not heal.
 */
export async function openServiceBusBroker(options: ServiceBusBrokerOptions): Promise<Broker> {
  const { installation, logger, confirmMs = CONFIRM_MS } = options;
  const address = readServiceBusAddress(options.connectionString);
  const names = queueNames(options);
  const makeClient = await loadClients(address, confirmMs);
  const subscriptions = new Set<ServiceBusSubscription>();
  let current: ServiceBusClient | null = null;
  let isClosed = false;

  const publisher = createPublisher({
    names,
    address,
    installation,
    logger,
    confirmMs,
    onSilence: (reason) => link.reset(reason),
  });
  const link = openLink({
    address,
    makeClient,
    logger,
    connectMs: confirmMs,
    async onUp(client) {
      await publisher.attach(client);
      current = client;
      for (const subscription of subscriptions) subscription.attach(client);
    },
    onDown() {
      current = null;
      publisher.detach();
      for (const subscription of subscriptions) subscription.detach();
    },
  });
  const failure = await link.firstAttempt;
  if (failure !== null && isLasting(failure)) {
    await link.close(0);
    throw failure;
  }

  return {
    publish(messages) {
      if (isClosed || link.condition().state !== "connected") return Promise.resolve(messages.map(() => "unknown"));
      return publisher.publish(messages);
    },
    subscribe(queue, prefetch, onDelivery) {
      const subscription: ServiceBusSubscription = createSubscription({
        queue,
        name: names.work(queue),
        address,
        prefetch,
        onDelivery,
        logger,
        onEnd: () => subscriptions.delete(subscription),
      });
      subscriptions.add(subscription);
      if (current !== null) subscription.attach(current);
      return subscription;
    },
    // Only the management interface knows it, which needs the right Manage.
    depth: () => Promise.resolve(null),
    condition() {
      const connection = link.condition();
      if (connection.state !== "connected") return connection;
      const reason = publisher.blocked();
      if (reason !== null) return { state: "blocked", reason };
      return { state: "connected", reason: publisher.problem() };
    },
    async close() {
      isClosed = true;
      await Promise.race([
        Promise.all([...subscriptions].map((subscription) => subscription.end())),
        delay(CLOSE_MS, undefined, { ref: false }),
      ]);
      await link.close(CLOSE_MS);
    },
  };
}
