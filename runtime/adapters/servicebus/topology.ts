import { TurnoError } from "../../core/errors.ts";

/** Names of one installation's queues. What cannot be read goes to the dead-letter sub-queue of its own queue. */
export interface QueueNames {
  work(queue: string): string;
  /** Of every installation with this prefix: other systems know it by name, and each message says whose it is. */
  readonly deadLetter: string;
}

/** What Service Bus leaves for the prefix and the installation beside the longest name of a queue. */
const ROOM = 260 - 200 - 2;
const PREFIX = /^[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?$/;

/** Throws TURNO_CONFIG_SETTING when Service Bus would not take the names. */
export function queueNames({
  prefix,
  installation,
}: {
  readonly prefix: string;
  readonly installation: string;
}): QueueNames {
  const room = ROOM - installation.length;
  if (prefix.length > room || !PREFIX.test(prefix)) {
    throw new TurnoError(
      "TURNO_CONFIG_SETTING",
      `expected broker.prefix to be at most ${room} letters, digits, ".", "-", "_" or "/" on Service Bus, and to begin and end with a letter or a digit, found "${prefix}"`,
    );
  }
  return { work: (queue) => `${prefix}-${installation}-${queue}`, deadLetter: `${prefix}-dead-letter` };
}
