import type { ServiceBusClient } from "@azure/service-bus";
import type { Logger } from "../../core/logger.ts";
import { readBrokerMessage } from "../../protocol/ports/broker-text.ts";
import type { Delivery, DispatchMessage, MarkerMessage, Subscription } from "../../protocol/ports/transport.ts";
import type { ServiceBusAddress } from "./address.ts";
import { cleanText, explainQueueRefusal, isLasting } from "./failures.ts";
import { openReceiver, type Received, type Receiver } from "./receivers.ts";
import { createSlots, type Slots } from "./slots.ts";

/** A free slot is used at once, a run of them together; less is asked for when it stays so. */
const RESIZE_MS = { more: 20, less: 1_000 };
const RESTART_MS = { first: 500, most: 30_000 };
/** A receiver that was this long up is taken for well. */
const STEADY_MS = 2_000;
/** More of them are put together into one. */
const RECEIVERS_AT_MOST = 8;

export interface SubscriptionOptions {
  readonly queue: string;
  /** As Service Bus knows it. */
  readonly name: string;
  readonly address: ServiceBusAddress;
  readonly prefetch: number;
  readonly logger: Logger;
  onDelivery(delivery: Delivery): void;
  /** It was stopped, and nothing of it is open any more. */
  onEnd(): void;
}

/** Consumes from one queue over whatever connection there is. */
export interface ServiceBusSubscription extends Subscription {
  attach(client: ServiceBusClient): void;
  detach(): void;
  /** Stops, and gives back what is open. */
  end(): Promise<void>;
}

/** From one beginning to the loss of a receiver; deliveries belong to it and count nothing after it. */
interface Epoch {
  readonly client: ServiceBusClient;
  readonly slots: Slots<Received>;
  readonly receivers: Set<Receiver>;
  readonly open: Set<Received>;
  readonly messages: Map<Received, DispatchMessage | MarkerMessage>;
}

export function createSubscription(options: SubscriptionOptions): ServiceBusSubscription {
  const { name, address, logger } = options;
  let allowed = options.prefetch;
  let client: ServiceBusClient | null = null;
  let epoch: Epoch | null = null;
  let isStopped = false;
  let resizing: { readonly timer: NodeJS.Timeout; readonly kind: "more" | "less" } | null = null;
  let restarting: NodeJS.Timeout | null = null;
  let steady: NodeJS.Timeout | null = null;
  let restartMs = RESTART_MS.first;
  let complaint: string | null = null;

  const start = (on: ServiceBusClient): void => {
    const started: Epoch = {
      client: on,
      receivers: new Set(),
      open: new Set(),
      messages: new Map(),
      slots: createSlots<Received>(allowed, ({ receiver }) => !receiver.isRetired, {
        hand: (received) => hand(started, received),
        giveBack: (received) => {
          started.messages.delete(received);
          void received.receiver.abandon(received);
        },
        processed: (received) => received.processed(),
        begin: (size) => begin(started, size),
        retire() {
          for (const receiver of started.receivers) receiver.retire();
          started.receivers.clear();
        },
      }),
    };
    epoch = started;
    started.slots.widen();
  };
  const begin = (on: Epoch, size: number): void => {
    const receiver = openReceiver({
      client: on.client,
      queue: name,
      size,
      onUp: () => settleDown(on),
      onMessage: (received) => arrive(on, received),
      onLost: (error) => lose(on, error),
      onSettleFailed: (error) => logger.debug("a message was not settled", { queue: name, error: text(error) }),
    });
    on.receivers.add(receiver);
  };
  const settleDown = (on: Epoch): void => {
    // A receiver that was lost while it opened still tells that it is up.
    if (epoch !== on) return;
    steady ??= setTimeout(() => {
      steady = null;
      if (epoch !== on) return;
      restartMs = RESTART_MS.first;
      if (complaint !== null) logger.info("a queue of Service Bus can be consumed again", { queue: name });
      complaint = null;
    }, STEADY_MS).unref();
  };
  const lose = (on: Epoch, error: unknown): void => {
    if (epoch !== on) return;
    leave();
    if (isStopped) options.onEnd();
    if (isStopped || client !== on.client) return;
    complain(error);
    restart(on.client);
  };
  /** What was delivered comes again, to anybody, when its locks run out. */
  const leave = (): void => {
    const left = epoch;
    epoch = null;
    cancel();
    for (const receiver of left?.receivers ?? []) receiver.drop();
    left?.receivers.clear();
    left?.open.clear();
  };
  const complain = (error: unknown): void => {
    const failure = explainQueueRefusal(error, name, address);
    const found = failure?.message ?? text(error);
    if (complaint === found) return;
    complaint = found;
    const fields = {
      queue: name,
      error: found,
      ...(failure === null ? {} : { code: failure.code, hint: failure.hint }),
    };
    if (failure !== null && isLasting(failure)) {
      logger.error("a queue of Service Bus cannot be consumed; trying again", fields);
    } else logger.warn("a queue of Service Bus cannot be consumed for now; trying again", fields);
  };
  const restart = (on: ServiceBusClient): void => {
    if (restarting !== null || isStopped) return;
    restarting = setTimeout(() => {
      restarting = null;
      if (client === on && epoch === null && !isStopped) start(on);
    }, restartMs);
    restartMs = Math.min(RESTART_MS.most, restartMs * 2);
  };

  const arrive = (on: Epoch, received: Received): void => {
    const content = readBody(received.message.body);
    if (typeof content === "string") {
      logger.warn("a message that Turno did not write goes to the dead-letter sub-queue", {
        queue: name,
        reason: content,
      });
      void received.receiver.deadLetter(received, content);
      on.slots.passed(received);
    } else {
      on.messages.set(received, content);
      on.slots.arrived(received);
    }
    consider();
  };
  const hand = (on: Epoch, received: Received): void => {
    const message = on.messages.get(received);
    if (message === undefined) return;
    on.messages.delete(received);
    on.open.add(received);
    /** Once; its link may be gone, and then its lock runs out by itself. */
    const settle = async (send: () => Promise<void>): Promise<void> => {
      if (!on.open.delete(received) || epoch !== on) return;
      await send();
      if (isStopped && epoch === on && on.slots.open === 0) finish();
    };
    options.onDelivery({
      message,
      acknowledge: () =>
        settle(() => {
          const sent = received.receiver.complete(received);
          on.slots.acknowledged(received);
          consider();
          return sent;
        }),
      release: () =>
        settle(async () => {
          on.slots.releasing();
          // Asked for before, the next message would come in its place.
          await received.receiver.abandon(received);
          on.slots.released(received);
          consider();
        }),
    });
  };

  const consider = (): void => {
    const current = epoch;
    if (current === null || isStopped) return;
    const { slots } = current;
    const kind = slots.isUndersized() ? "more" : slots.isOversized() ? "less" : null;
    if (kind === resizing?.kind) return;
    cancelResize();
    if (kind === null) return;
    const timer = setTimeout(() => {
      resizing = null;
      if (kind === "more" && current.receivers.size < RECEIVERS_AT_MOST) slots.widen();
      else slots.resize();
      consider();
    }, RESIZE_MS[kind]);
    resizing = { timer, kind };
  };
  const cancelResize = (): void => {
    if (resizing !== null) clearTimeout(resizing.timer);
    resizing = null;
  };
  const cancel = (): void => {
    cancelResize();
    if (steady !== null) clearTimeout(steady);
    steady = null;
    if (restarting !== null) clearTimeout(restarting);
    restarting = null;
  };
  const finish = (): void => {
    leave();
    options.onEnd();
  };
  const stop = (): void => {
    if (isStopped) return;
    isStopped = true;
    cancel();
    epoch?.slots.stop();
  };

  return {
    attach(next) {
      client = next;
      cancel();
      restartMs = RESTART_MS.first;
      if (!isStopped) start(next);
    },
    detach() {
      client = null;
      leave();
      if (isStopped) options.onEnd();
    },
    prefetch(count) {
      allowed = count;
      epoch?.slots.allow(count);
      consider();
    },
    stop() {
      stop();
      if (epoch === null || epoch.slots.open === 0) finish();
      return Promise.resolve();
    },
    async end() {
      stop();
      const open = [...(epoch?.open ?? [])];
      epoch?.open.clear();
      await Promise.all(open.map((received) => received.receiver.abandon(received)));
      finish();
    },
  };

  function text(error: unknown): string {
    return cleanText(error, address);
  }
}

function readBody(body: unknown): DispatchMessage | MarkerMessage | string {
  if (!Buffer.isBuffer(body)) return "its body is not one section of data";
  const read = readBrokerMessage(body.toString());
  if (typeof read === "string") return read;
  return read.kind === "dead-letter" ? "it is a dead letter in a queue of jobs" : read;
}
