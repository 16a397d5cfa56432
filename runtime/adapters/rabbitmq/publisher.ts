import type { ChannelModel, ConfirmChannel } from "amqplib";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { MESSAGE_LIMIT_BYTES, writeBrokerMessage } from "../../protocol/ports/broker-text.ts";
import type { BrokerMessage, PublishOutcome } from "../../protocol/ports/transport.ts";
import type { Declarations } from "./declarations.ts";
import type { QueueNames } from "./topology.ts";

export interface PublisherOptions {
  readonly names: QueueNames;
  readonly declarations: Declarations;
  readonly installation: string;
  readonly logger: Logger;
  /** What is not confirmed by then is of unknown outcome. */
  readonly confirmMs: number;
  /** Called when the connection is of no more use, with why. */
  onSilence(reason: string): void;
}

/** A text that nobody could read, with why. */
export interface UnreadableMessage {
  readonly queue: string;
  readonly content: Buffer;
  readonly reason: string;
}

/** Publishes on the connection that is attached. */
export interface Publisher {
  attach(model: ChannelModel): Promise<void>;
  detach(): void;
  publish(messages: readonly BrokerMessage[]): Promise<readonly PublishOutcome[]>;
  /** Puts what cannot be read where people look; false when it is not certain to be there. */
  publishError(message: UnreadableMessage): Promise<boolean>;
  /** Messages that wait in a queue; null when it is not known. */
  depth(queue: string): Promise<number | null>;
  /** A queue that cannot be used, until it can. */
  problem(): string | null;
}

interface Outgoing {
  readonly queue: string;
  readonly content: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

interface Session {
  readonly confirms: ConfirmChannel;
  readonly declared: Set<string>;
  /** Ids of messages that came back, until their confirm, which is always later. */
  readonly returned: Set<string>;
  readonly onEnd: Set<() => void>;
}

export function createPublisher(options: PublisherOptions): Publisher {
  const { names, installation, logger } = options;
  let session: Session | null = null;
  let published = 0;
  const problems = new Map<string, string>();

  const declare = async (on: Session, queue: string): Promise<number | null> => {
    try {
      const messages = await options.declarations.declare(queue);
      on.declared.add(queue);
      problems.delete(queue);
      return messages;
    } catch (error) {
      if (session === on && error instanceof TurnoError) complain(queue, error);
      return null;
    }
  };
  const complain = (queue: string, failure: TurnoError): void => {
    if (problems.get(queue) === failure.message) return;
    problems.set(queue, failure.message);
    logger.error("a queue of RabbitMQ cannot be used; trying again", {
      queue,
      error: failure.message,
      code: failure.code,
      hint: failure.hint,
    });
  };

  const send = async (on: Session, messages: readonly Outgoing[]): Promise<readonly PublishOutcome[]> => {
    const outcomes = messages.map((): PublishOutcome => "unknown");
    for (const queue of new Set(messages.map((message) => message.queue))) {
      if (!on.declared.has(queue)) await declare(on, queue);
    }
    if (session !== on) return outcomes;
    await new Promise<void>((resolve) => {
      let open = messages.length;
      const timer = setTimeout(() => {
        finish();
        options.onSilence("it confirmed nothing in time");
      }, options.confirmMs);
      const finish = (): void => {
        clearTimeout(timer);
        on.onEnd.delete(finish);
        resolve();
      };
      const settle = (index: number, outcome: PublishOutcome): void => {
        outcomes[index] = outcome;
        open -= 1;
        if (open === 0) finish();
      };
      on.onEnd.add(finish);
      for (const [index, message] of messages.entries()) {
        if (!on.declared.has(message.queue)) {
          // It certainly reached no queue, and others may go on.
          settle(index, "unroutable");
          continue;
        }
        const messageId = String(++published);
        const confirm = (error: unknown): void => {
          const isReturned = on.returned.delete(messageId);
          if (isReturned) on.declared.delete(message.queue);
          settle(index, error !== null ? "unknown" : isReturned ? "unroutable" : "confirmed");
        };
        try {
          on.confirms.publish("", message.queue, message.content, publishOptions(message, messageId), confirm);
        } catch (error) {
          logger.debug("a message was not sent", { queue: message.queue, error: describeError(error) });
          settle(index, "unknown");
        }
      }
    });
    return outcomes;
  };
  const publishOptions = ({ headers }: Outgoing, messageId: string) => ({
    persistent: true,
    mandatory: true,
    contentType: "application/json",
    messageId,
    appId: "turno",
    headers: { "x-turno-installation": installation, ...headers },
  });

  return {
    async attach(model) {
      const confirms = await model.createConfirmChannel();
      const next: Session = {
        confirms,
        declared: new Set(),
        returned: new Set(),
        onEnd: new Set(),
      };
      confirms.on("return", ({ properties }) => next.returned.add(String(properties.messageId)));
      confirms.on("error", (error) => logger.debug("a channel was closed", { error: describeError(error) }));
      // Without its channel a connection publishes nothing: another one is made, unless it has ended with the channel.
      confirms.once("close", () => setImmediate(() => session === next && options.onSilence("its channel was closed")));
      session = next;
      for (const queue of [names.error, names.deadLetter]) await declare(next, queue);
    },
    detach() {
      const ended = session;
      session = null;
      for (const finish of [...(ended?.onEnd ?? [])]) finish();
    },
    async publish(messages) {
      if (session === null || messages.length === 0) return messages.map(() => "unknown");
      return send(
        session,
        messages.map((message) => outgoingOf(message, names)),
      );
    },
    async publishError({ queue, content, reason }) {
      if (session === null) return false;
      const kept = content.subarray(0, MESSAGE_LIMIT_BYTES);
      const headers = { "x-turno-queue": queue, "x-turno-reason": reason };
      const [outcome] = await send(session, [{ queue: names.error, content: kept, headers }]);
      return outcome === "confirmed";
    },
    async depth(queue) {
      return session === null ? null : declare(session, names.work(queue));
    },
    problem: () => problems.values().next().value ?? null,
  };
}

function outgoingOf(message: BrokerMessage, names: QueueNames): Outgoing {
  const content = Buffer.from(writeBrokerMessage(message));
  if (message.kind !== "dead-letter") return { queue: names.work(message.queue), content, headers: {} };
  if (content.length <= MESSAGE_LIMIT_BYTES) return { queue: names.deadLetter, content, headers: {} };
  const shortened = writeBrokerMessage({ ...message, body: { shortenedFromBytes: content.length } });
  return { queue: names.deadLetter, content: Buffer.from(shortened), headers: {} };
}
