import { setTimeout as delay } from "node:timers/promises";
import { type Channel, type ChannelModel, connect } from "amqplib";
import { TurnoError } from "../../core/errors.ts";
import type { RabbitAddress } from "./address.ts";
import { explainQueueRefusal, isLasting } from "./failures.ts";
import { breakSocket } from "./link.ts";
import { type QueueNames, queueOptions } from "./topology.ts";

const TRIES = 4;
const AGAIN_MS = 150;
const LIMIT_MS = 5_000;
const IDLE_MS = 30_000;

/**
 * Declares queues on a connection of its own, there only while it is used: RabbitMQ (3.10 at least) ends the connection of
 * one of two that declare the same new quorum queue at once, and with it whatever else was on its way there.
 */
export interface Declarations {
  /** Resolves to the number of messages that wait in the queue. Throws a TurnoError. */
  declare(queue: string): Promise<number>;
  close(): void;
}

interface Opened {
  readonly model: ChannelModel;
  readonly channel: Channel;
}

export function createDeclarations(address: RabbitAddress, names: QueueNames): Declarations {
  const underway = new Map<string, Promise<number>>();
  let opening: Promise<Opened> | null = null;
  let idle: NodeJS.Timeout | null = null;
  let isClosed = false;

  const open = async (): Promise<Opened> => {
    const model = await connect(address.connect, {
      ...address.socket,
      clientProperties: { connection_name: "turno declare", product: "turno" },
    });
    model.on("error", () => {});
    model.once("close", () => {
      opening = null;
    });
    const channel = await model.createChannel();
    channel.on("error", () => {});
    channel.once("close", () => drop(model));
    return { model, channel };
  };
  const drop = (model: ChannelModel): void => {
    opening = null;
    breakSocket(model, "no longer used");
  };
  const dropAll = (): void => {
    const dropped = opening;
    opening = null;
    dropped?.then(({ model }) => drop(model)).catch(() => {});
  };
  const declareOnce = async (queue: string): Promise<number> => {
    if (isClosed) throw new Error("the broker is closed");
    opening ??= open();
    const mine = opening;
    try {
      const { channel } = await mine;
      const { messageCount } = await within(channel.assertQueue(queue, queueOptions(queue, names)));
      return messageCount;
    } catch (error) {
      if (opening === mine) dropAll();
      throw error;
    }
  };
  const declare = async (queue: string): Promise<number> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await declareOnce(queue);
      } catch (error) {
        const failure = explainQueueRefusal(error, queue);
        if (attempt === TRIES || isClosed || isLasting(failure)) throw failure;
        // Who met at the queue is not to meet there again.
        await delay(AGAIN_MS * attempt * (0.5 + Math.random()), undefined, { ref: false });
      }
    }
  };

  return {
    async declare(queue) {
      const declared = underway.get(queue) ?? declare(queue);
      underway.set(queue, declared);
      try {
        return await declared;
      } finally {
        underway.delete(queue);
        if (idle !== null) clearTimeout(idle);
        if (!isClosed) idle = setTimeout(dropAll, IDLE_MS).unref();
      }
    },
    close() {
      isClosed = true;
      if (idle !== null) clearTimeout(idle);
      dropAll();
    },
  };
}

async function within<Value>(answer: Promise<Value>): Promise<Value> {
  const over = new AbortController();
  const limit = delay(LIMIT_MS, null, { signal: over.signal, ref: false }).then(() => {
    throw new TurnoError("TURNO_BROKER_UNREACHABLE", `RabbitMQ did not answer within ${LIMIT_MS} ms`);
  });
  limit.catch(() => {});
  try {
    return await Promise.race([answer, limit]);
  } finally {
    over.abort();
  }
}
