import { setTimeout as delay } from "node:timers/promises";
import type { ChannelModel } from "amqplib";
import type { Logger } from "../../core/logger.ts";
import type { Broker } from "../../protocol/ports/transport.ts";
import { type RabbitTls, readRabbitAddress } from "./address.ts";
import { createDeclarations } from "./declarations.ts";
import { isLasting } from "./failures.ts";
import { openLink, type RabbitLink } from "./link.ts";
import { createPublisher } from "./publisher.ts";
import { createSubscription, type RabbitSubscription } from "./subscription.ts";
import { queueNames } from "./topology.ts";

/** Below what the relay gives a batch. */
const CONFIRM_MS = 10_000;
const DEPTH_MS = 3_000;
const CLOSE_MS = 2_000;

export interface RabbitBrokerOptions {
  /** `amqp://` or `amqps://`, with user and password. */
  readonly url: string;
  /** Null: the address's. */
  readonly vhost: string | null;
  readonly tls: RabbitTls;
  /** First part of the names of queues. */
  readonly prefix: string;
  /** Second part: what nobody else's queues have. */
  readonly installation: string;
  readonly logger: Logger;
  /** For tests; 10 s. */
  readonly confirmMs?: number;
}

/**
 * A broker that keeps its connections: one for what is published, which RabbitMQ may hold up, and one for what is
 * consumed, from the first subscription on. Resolves when it is connected, or after a first attempt that met nobody.
 * Throws TURNO_BROKER_ADDRESS and TURNO_BROKER_ACCESS for what waiting does not heal.
 */
export async function openRabbitBroker(options: RabbitBrokerOptions): Promise<Broker> {
  const { installation, logger, confirmMs = CONFIRM_MS } = options;
  const address = readRabbitAddress(options);
  const names = queueNames(options);
  const declarations = createDeclarations(address, names);
  const subscriptions = new Set<RabbitSubscription>();
  let consuming: { readonly link: RabbitLink; model: ChannelModel | null } | null = null;

  const publisher = createPublisher({
    names,
    declarations,
    installation,
    logger,
    confirmMs,
    onSilence(reason) {
      // One that is blocked will tell when it goes on.
      if (publishing.condition().state !== "blocked") publishing.reset(reason);
    },
  });
  const publishing = openLink({
    address,
    purpose: "publish",
    logger,
    onUp: publisher.attach,
    onDown: publisher.detach,
  });
  const failure = await publishing.firstAttempt;
  if (failure !== null && isLasting(failure)) {
    declarations.close();
    await publishing.close(0);
    throw failure;
  }

  const consume = (): { readonly link: RabbitLink; model: ChannelModel | null } => {
    const opened: { link: RabbitLink; model: ChannelModel | null } = {
      model: null,
      link: openLink({
        address,
        purpose: "consume",
        logger,
        async onUp(model) {
          opened.model = model;
          for (const subscription of subscriptions) subscription.attach(model);
        },
        onDown() {
          opened.model = null;
          for (const subscription of subscriptions) subscription.detach();
        },
      }),
    };
    return opened;
  };

  return {
    publish(messages) {
      // What is written to a connection that is held up would only pile up.
      if (publishing.condition().state !== "connected") return Promise.resolve(messages.map(() => "unknown"));
      return publisher.publish(messages);
    },
    subscribe(queue, prefetch, onDelivery) {
      const subscription: RabbitSubscription = createSubscription({
        queue,
        names,
        declarations,
        prefetch,
        onDelivery,
        logger,
        putAside: publisher.publishError,
        onEnd: () => subscriptions.delete(subscription),
      });
      subscriptions.add(subscription);
      consuming ??= consume();
      if (consuming.model !== null) subscription.attach(consuming.model);
      return subscription;
    },
    async depth(queue) {
      const ended = new AbortController();
      const limit = delay(DEPTH_MS, null, { signal: ended.signal, ref: false }).catch(() => null);
      try {
        return await Promise.race([publisher.depth(queue), limit]);
      } finally {
        ended.abort();
      }
    },
    condition() {
      const sending = publishing.condition();
      if (sending.state !== "connected") return sending;
      const receiving = consuming?.link.condition();
      if (receiving?.state === "away") return receiving;
      return { state: "connected", reason: publisher.problem() };
    },
    async close() {
      declarations.close();
      await Promise.race([
        Promise.all([...subscriptions].map((subscription) => subscription.end())),
        delay(CLOSE_MS, undefined, { ref: false }),
      ]);
      await Promise.all([publishing.close(CLOSE_MS), consuming?.link.close(CLOSE_MS)]);
    },
  };
}
