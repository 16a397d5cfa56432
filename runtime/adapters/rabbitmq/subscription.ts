import type { Channel, ChannelModel, ConsumeMessage } from "amqplib";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { readBrokerMessage } from "../../protocol/ports/broker-text.ts";
import type { Delivery, Subscription } from "../../protocol/ports/transport.ts";
import { type Credit, createCredit } from "./credit.ts";
import type { Declarations } from "./declarations.ts";
import { explainQueueRefusal, isLasting } from "./failures.ts";
import type { UnreadableMessage } from "./publisher.ts";
import type { QueueNames } from "./topology.ts";

/** A free slot is used at once, a run of them together; less is asked for when it stays so. */
const RESIZE_MS = { more: 20, less: 1_000 };
const RESTART_MS = { first: 500, most: 30_000 };
const ERROR_QUEUE_AGAIN_MS = 5_000;

export interface SubscriptionOptions {
  readonly queue: string;
  readonly names: QueueNames;
  readonly declarations: Declarations;
  readonly prefetch: number;
  readonly logger: Logger;
  onDelivery(delivery: Delivery): void;
  putAside(message: UnreadableMessage): Promise<boolean>;
  /** It was stopped, and nothing of it is open any more. */
  onEnd(): void;
}

/** Consumes from one queue over whatever connection there is. */
export interface RabbitSubscription extends Subscription {
  attach(model: ChannelModel): void;
  detach(): void;
  /** Stops, and sends what is still to be sent. */
  end(): Promise<void>;
}

/** One channel's life; deliveries belong to it and count nothing after it. */
interface Epoch {
  readonly channel: Channel;
  readonly credit: Credit<ConsumeMessage>;
}

export function createSubscription(options: SubscriptionOptions): RabbitSubscription {
  const { names, logger } = options;
  const queue = names.work(options.queue);
  let allowed = options.prefetch;
  let model: ChannelModel | null = null;
  let epoch: Epoch | null = null;
  let isStopped = false;
  let consumers = 0;
  let resizing: { readonly timer: NodeJS.Timeout; readonly kind: "more" | "less" } | null = null;
  let restarting: NodeJS.Timeout | null = null;
  let restartMs = RESTART_MS.first;
  let complaint: string | null = null;

  const start = async (on: ChannelModel): Promise<void> => {
    try {
      await options.declarations.declare(queue);
      if (model !== on || isStopped) return;
      const channel = await on.createChannel();
      channel.on("error", () => {});
      channel.once("close", () => lose(channel, on));
      if (model !== on || isStopped) return;
      epoch = { channel, credit: createCreditOn(channel, on) };
      epoch.credit.resize();
      restartMs = RESTART_MS.first;
      if (complaint !== null) logger.info("a queue of RabbitMQ can be consumed again", { queue });
      complaint = null;
    } catch (error) {
      if (model !== on) return;
      complain(error);
      restart(on);
    }
  };
  const complain = (error: unknown): void => {
    const failure = error instanceof TurnoError ? error : explainQueueRefusal(error, queue);
    if (complaint === failure.message) return;
    complaint = failure.message;
    const fields = { queue, error: failure.message, code: failure.code, hint: failure.hint };
    if (isLasting(failure)) logger.error("a queue of RabbitMQ cannot be consumed; trying again", fields);
    else logger.warn("a queue of RabbitMQ cannot be consumed for now; trying again", fields);
  };
  const lose = (channel: Channel, on: ChannelModel): void => {
    if (epoch?.channel !== channel) return;
    epoch = null;
    cancelResize();
    if (model === on) restart(on);
  };
  const restart = (on: ChannelModel): void => {
    if (restarting !== null || isStopped) return;
    restarting = setTimeout(() => {
      restarting = null;
      if (model === on && epoch === null && !isStopped) void start(on);
    }, restartMs);
    restartMs = Math.min(RESTART_MS.most, restartMs * 2);
  };

  const createCreditOn = (channel: Channel, on: ChannelModel): Credit<ConsumeMessage> => {
    let tag: string | null = null;
    const credit = createCredit<ConsumeMessage>(allowed, (message) => message.fields.consumerTag === tag, {
      hand(message) {
        const content = readBrokerMessage(message.content.toString());
        if (typeof content === "string" || content.kind === "dead-letter") return;
        let isSettled = false;
        const settleOnce = (change: () => void): Promise<void> => {
          if (!isSettled) settle(channel, change);
          isSettled = true;
          return Promise.resolve();
        };
        options.onDelivery({
          message: content,
          acknowledge: () => settleOnce(() => credit.acknowledged(message)),
          release: () => settleOnce(() => credit.released(message)),
        });
      },
      acknowledge: (message) => attempt(() => channel.ack(message)),
      giveBack: (message) => attempt(() => channel.nack(message, false, true)),
      end() {
        const ended = tag;
        tag = null;
        if (ended !== null) channel.cancel(ended).catch(() => {});
      },
      begin(prefetch) {
        const consumerTag = `turno-${++consumers}`;
        tag = consumerTag;
        // In this order on the channel; a refusal closes it, which is heard there.
        channel.prefetch(prefetch).catch(() => {});
        channel.consume(queue, (message) => arrive(message, channel, credit, on), { consumerTag }).catch(() => {});
      },
    });
    return credit;
  };
  const arrive = (
    message: ConsumeMessage | null,
    channel: Channel,
    credit: Credit<ConsumeMessage>,
    on: ChannelModel,
  ): void => {
    if (message === null) {
      logger.warn("RabbitMQ ended a consumer, as when its queue is deleted", { queue });
      channel.close().catch(() => {});
      lose(channel, on);
      return;
    }
    const reason = unreadable(message.content);
    if (reason === null) {
      credit.arrived(message);
      consider();
    } else {
      void putAside(message, channel, reason);
    }
  };
  const putAside = async (message: ConsumeMessage, channel: Channel, reason: string): Promise<void> => {
    logger.warn("a message that Turno did not write goes to the error queue", { queue, reason });
    const isKept = await options.putAside({ queue, content: message.content, reason });
    if (isKept) return attempt(() => channel.ack(message));
    const later = setTimeout(() => attempt(() => channel.nack(message, false, true)), ERROR_QUEUE_AGAIN_MS);
    later.unref();
  };

  const settle = (channel: Channel, change: () => void): void => {
    // Its channel is gone, and the broker has given it to somebody else already.
    if (epoch?.channel !== channel) return;
    change();
    consider();
    if (isStopped && epoch.credit.open === 0) void finish();
  };
  const consider = (): void => {
    const credit = epoch?.credit;
    if (credit === undefined || isStopped) return;
    const kind = credit.isUndersized() ? "more" : credit.isOversized() ? "less" : null;
    if (kind === resizing?.kind) return;
    cancelResize();
    if (kind === null) return;
    const timer = setTimeout(() => {
      resizing = null;
      credit.resize();
      consider();
    }, RESIZE_MS[kind]);
    resizing = { timer, kind };
  };
  const cancelResize = (): void => {
    if (resizing !== null) clearTimeout(resizing.timer);
    resizing = null;
  };
  const finish = async (): Promise<void> => {
    const ended = epoch;
    epoch = null;
    options.onEnd();
    if (ended !== null) await ended.channel.close().catch(() => {});
  };
  const stop = (): void => {
    if (isStopped) return;
    isStopped = true;
    cancelResize();
    if (restarting !== null) clearTimeout(restarting);
    epoch?.credit.stop();
  };

  return {
    attach(next) {
      model = next;
      if (restarting !== null) clearTimeout(restarting);
      restarting = null;
      if (!isStopped) void start(next);
    },
    detach() {
      model = null;
      epoch = null;
      cancelResize();
      if (isStopped) options.onEnd();
    },
    prefetch(count) {
      allowed = count;
      epoch?.credit.allow(count);
      consider();
    },
    stop() {
      stop();
      if (epoch === null || epoch.credit.open === 0) void finish();
      return Promise.resolve();
    },
    async end() {
      stop();
      await finish();
    },
  };

  function attempt(send: () => void): void {
    try {
      send();
    } catch (error) {
      logger.debug("a channel is gone", { queue, error: describeError(error) });
    }
  }
}

function unreadable(content: Buffer): string | null {
  const read = readBrokerMessage(content.toString());
  if (typeof read === "string") return read;
  return read.kind === "dead-letter" ? "it is a dead letter in a queue of jobs" : null;
}
