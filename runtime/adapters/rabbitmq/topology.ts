import type { Options } from "amqplib";
import { TurnoError } from "../../core/errors.ts";

/** A returned message counts in RabbitMQ; Turno's own budgets decide, so the broker's never does. */
const DELIVERY_LIMIT = 1_000_000;
/** Copies for people and other systems that nobody may ever read: the oldest go first. */
const COPIES = { messages: 100_000, bytes: 256 * 1024 * 1024 };

/** Names of one installation's queues. */
export interface QueueNames {
  work(queue: string): string;
  readonly error: string;
  /** Of every installation with this prefix: other systems know it by name, and each message says whose it is. */
  readonly deadLetter: string;
}

/** What AMQP leaves for the prefix and the installation beside the longest name of a queue. */
const ROOM = 255 - 200 - 2;

/** Throws TURNO_CONFIG_SETTING when the names would be longer than AMQP takes. */
export function queueNames({
  prefix,
  installation,
}: {
  readonly prefix: string;
  readonly installation: string;
}): QueueNames {
  if (prefix.length + installation.length > ROOM) {
    const room = ROOM - installation.length;
    throw new TurnoError(
      "TURNO_CONFIG_SETTING",
      `expected broker.prefix to be at most ${room} characters long on RabbitMQ, found ${prefix.length}`,
    );
  }
  return {
    work: (queue) => `${prefix}.${installation}.${queue}`,
    // No queue of a project begins so.
    error: `${prefix}.${installation}._error`,
    deadLetter: `${prefix}-dead-letter`,
  };
}

/** How a queue is declared. Another version that declares it otherwise could not use it: change nothing here. */
export function queueOptions(name: string, names: QueueNames): Options.AssertQueue {
  const quorum = { "x-queue-type": "quorum" };
  if (name === names.error || name === names.deadLetter) {
    return {
      durable: true,
      arguments: {
        ...quorum,
        "x-overflow": "drop-head",
        "x-max-length": COPIES.messages,
        "x-max-length-bytes": COPIES.bytes,
      },
    };
  }
  return {
    durable: true,
    arguments: {
      ...quorum,
      "x-delivery-limit": DELIVERY_LIMIT,
      "x-dead-letter-exchange": "",
      "x-dead-letter-routing-key": names.error,
    },
  };
}
