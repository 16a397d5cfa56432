import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { ServiceBusClient, ServiceBusMessage, ServiceBusSender } from "@azure/service-bus";
import type { TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { writeBrokerMessage } from "../../protocol/ports/broker-text.ts";
import type { BrokerMessage, PublishOutcome } from "../../protocol/ports/transport.ts";
import type { ServiceBusAddress } from "./address.ts";
import { cleanText, explainBlock, explainQueueRefusal, isSilence } from "./failures.ts";
import type { QueueNames } from "./topology.ts";

/** No tier takes a larger batch, though Premium takes larger messages. */
const BATCH = { bytes: 1024 * 1024, messages: 1_000 };

export interface PublisherOptions {
  readonly names: QueueNames;
  readonly address: ServiceBusAddress;
  readonly installation: string;
  readonly logger: Logger;
  /** What is not confirmed by then is of unknown outcome. */
  readonly confirmMs: number;
  /** Called when the connection is of no more use, with why. */
  onSilence(reason: string): void;
}

/** Publishes on the client that is attached. */
export interface Publisher {
  /** Connects by opening a first sender. Throws when it is the connection that fails. */
  attach(client: ServiceBusClient): Promise<void>;
  detach(): void;
  publish(messages: readonly BrokerMessage[]): Promise<readonly PublishOutcome[]>;
  /** Why it took no messages the last time, though it answered. */
  blocked(): string | null;
  /** A queue that cannot be used, until it can. */
  problem(): string | null;
}

interface Session {
  readonly client: ServiceBusClient;
  readonly senders: Map<string, ServiceBusSender>;
  readonly over: AbortController;
}

interface Outgoing {
  readonly index: number;
  readonly message: BrokerMessage;
}

type Tell = (index: number, outcome: PublishOutcome) => void;

export function createPublisher(options: PublisherOptions): Publisher {
  const { names, address, installation, logger } = options;
  let session: Session | null = null;
  let blocked: string | null = null;
  const problems = new Map<string, string>();

  const senderTo = (on: Session, queue: string): ServiceBusSender => {
    const sender = on.senders.get(queue) ?? on.client.createSender(queue);
    on.senders.set(queue, sender);
    return sender;
  };
  const dropSender = (on: Session, queue: string): void => {
    on.senders
      .get(queue)
      ?.close()
      .catch(() => {});
    on.senders.delete(queue);
  };
  const complain = (queue: string, failure: TurnoError): void => {
    if (problems.get(queue) === failure.message) return;
    problems.set(queue, failure.message);
    logger.error("a queue of Service Bus cannot be used; trying again", {
      queue,
      error: failure.message,
      code: failure.code,
      hint: failure.hint,
    });
  };

  /** In their order, in as few batches as they fit in; what comes behind a failure is not sent. */
  const sendTo = async (on: Session, queue: string, outgoing: readonly Outgoing[], tell: Tell): Promise<void> => {
    const sender = senderTo(on, queue);
    const left = [...outgoing];
    try {
      while (left.length > 0) {
        const batch = await openBatch(sender, on.over.signal);
        while (batch.count < BATCH.messages) {
          const [next] = left.slice(batch.count);
          if (next === undefined || !batch.tryAddMessage(writeMessage(next.message))) break;
        }
        const [first] = left;
        if (batch.count === 0 && first !== undefined && !batch.tryAddMessage(shorten(first.message))) {
          throw new Error("a message is larger than the queue takes");
        }
        await sender.sendMessages(batch, { abortSignal: on.over.signal });
        for (const { index } of left.splice(0, batch.count)) tell(index, "confirmed");
      }
      problems.delete(queue);
      blocked = null;
    } catch (error) {
      if (on.over.signal.aborted) return;
      dropSender(on, queue);
      const failure = explainQueueRefusal(error, queue, address);
      if (failure !== null) {
        complain(queue, failure);
        for (const { index } of left) tell(index, "unroutable");
        return;
      }
      blocked = explainBlock(error, address) ?? blocked;
      logger.debug("messages were not confirmed", { queue, error: cleanText(error, address) });
      if (isSilence(error)) options.onSilence("it confirmed nothing in time");
    }
  };
  const writeMessage = (message: BrokerMessage): ServiceBusMessage => ({
    body: Buffer.from(writeBrokerMessage(message)),
    contentType: "application/json",
    subject: message.kind,
    // Another one each time: a queue that drops what it has seen would drop what is sent again after a loss.
    messageId: randomUUID(),
    applicationProperties: { "x-turno-installation": installation },
  });
  const shorten = (message: BrokerMessage): ServiceBusMessage => {
    if (message.kind !== "dead-letter") return writeMessage(message);
    const bytes = Buffer.byteLength(writeBrokerMessage(message));
    return writeMessage({ ...message, body: { shortenedFromBytes: bytes } });
  };

  return {
    async attach(client) {
      const next: Session = { client, senders: new Map(), over: new AbortController() };
      session = next;
      try {
        await senderTo(next, names.deadLetter).createMessageBatch({ abortSignal: next.over.signal });
        problems.delete(names.deadLetter);
      } catch (error) {
        dropSender(next, names.deadLetter);
        const failure = explainQueueRefusal(error, names.deadLetter, address);
        // That a queue is missing is an answer of a namespace that can be used.
        if (failure?.code !== "TURNO_BROKER_QUEUE") throw error;
        complain(names.deadLetter, failure);
      }
    },
    detach() {
      session?.over.abort();
      session = null;
    },
    async publish(messages) {
      const on = session;
      if (on === null || messages.length === 0) return messages.map(() => "unknown");
      const outcomes = messages.map((): PublishOutcome => "unknown");
      const byQueue = new Map<string, Outgoing[]>();
      for (const [index, message] of messages.entries()) {
        const queue = message.kind === "dead-letter" ? names.deadLetter : names.work(message.queue);
        byQueue.set(queue, [...(byQueue.get(queue) ?? []), { index, message }]);
      }
      const done = new AbortController();
      const sent = Promise.all(
        [...byQueue].map(([queue, outgoing]) =>
          sendTo(on, queue, outgoing, (index, outcome) => {
            outcomes[index] = outcome;
          }),
        ),
      );
      const limit = delay(options.confirmMs, "silence", { signal: done.signal, ref: false }).catch(() => null);
      const end = await Promise.race([sent, limit, aborted(on.over.signal, done.signal)]);
      done.abort();
      if (end === "silence") options.onSilence("it confirmed nothing in time");
      return [...outcomes];
    },
    blocked: () => blocked,
    problem: () => problems.values().next().value ?? null,
  };
}

async function openBatch(sender: ServiceBusSender, abortSignal: AbortSignal) {
  const batch = await sender.createMessageBatch({ abortSignal });
  if (batch.maxSizeInBytes <= BATCH.bytes) return batch;
  return sender.createMessageBatch({ abortSignal, maxSizeInBytes: BATCH.bytes });
}

/** Resolves when the first signal aborts; `done` takes the listener away. */
function aborted(signal: AbortSignal, done: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(null);
    signal.addEventListener("abort", () => resolve(null), { once: true, signal: done });
  });
}
