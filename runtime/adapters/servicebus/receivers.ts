import type { MessageHandlers, ServiceBusClient, ServiceBusReceivedMessage } from "@azure/service-bus";
import { isSettleable } from "./client.ts";

export interface ReceiverOptions {
  readonly client: ServiceBusClient;
  readonly queue: string;
  readonly size: number;
  onUp(): void;
  onMessage(received: Received): void;
  /** Its link is gone or did not come to be: it brings nothing more, and its messages count nothing. */
  onLost(error: unknown): void;
  onSettleFailed(error: unknown): void;
}

/** A message, and the receiver whose link alone can settle it. */
export interface Received {
  readonly receiver: Receiver;
  readonly message: ServiceBusReceivedMessage;
  /** The receiver asks for one more. */
  processed(): void;
}

/** One receiver link of a queue. What settles a message does so at most once and never rejects. */
export interface Receiver {
  readonly isRetired: boolean;
  complete(received: Received): Promise<void>;
  abandon(received: Received): Promise<void>;
  deadLetter(received: Received, reason: string): Promise<void>;
  /** Asks for no more; closes its link when nothing of it is open. */
  retire(): void;
  /** At once, without the wait for what is open. */
  drop(): void;
}

/** Called before and after each opening of the link, the first one and those that follow the loss of it. */
interface InsideHandlers extends MessageHandlers {
  preInitialize(): Promise<void>;
  postInitialize(): Promise<void>;
}

export function openReceiver(options: ReceiverOptions): Receiver {
  const { queue, size } = options;
  const receiver = options.client.createReceiver(queue, {
    receiveMode: "peekLock",
    skipParsingBodyAsJson: true,
    // A claim follows within a moment, and a lock that runs out costs a second claim that fails.
    maxAutoLockRenewalDurationInMs: 0,
  });
  const open = new Set<Received>();
  let settling = 0;
  let isRetired = false;
  let isDrained = false;
  let isLost = false;
  let isOpened = false;

  const lose = (error: unknown): void => {
    if (isLost) return;
    isLost = true;
    drop();
    if (!isRetired) options.onLost(error);
  };
  const drop = (): void => {
    isLost = true;
    for (const received of open) received.processed();
    open.clear();
    receiver.close().catch(() => {});
  };
  const closeIdle = (): void => {
    if (isDrained && !isLost && open.size === 0 && settling === 0) drop();
  };
  const settle = async (received: Received, send: () => Promise<void>): Promise<void> => {
    if (!open.delete(received)) return;
    settling += 1;
    try {
      if (!isLost && isSettleable(received.message)) await send();
    } catch (error) {
      options.onSettleFailed(error);
    }
    settling -= 1;
    closeIdle();
  };

  const handlers: InsideHandlers = {
    processMessage: (message) =>
      new Promise<void>((resolve) => {
        const received: Received = { receiver: opened, message, processed: resolve };
        if (isLost) return resolve();
        open.add(received);
        options.onMessage(received);
      }),
    async processError({ error, errorSource }) {
      if (errorSource === "receive") lose(error);
    },
    async preInitialize() {
      // The package would open the link anew and ask for `size` messages again, whatever is open.
      if (isOpened) lose(new Error("the link was closed"));
    },
    async postInitialize() {
      isOpened = true;
      options.onUp();
    },
  };
  const opened: Receiver = {
    get isRetired() {
      return isRetired || isLost;
    },
    complete: (received) => settle(received, () => receiver.completeMessage(received.message)),
    abandon: (received) => settle(received, () => receiver.abandonMessage(received.message)),
    deadLetter: (received, reason) =>
      settle(received, () =>
        receiver.deadLetterMessage(received.message, {
          deadLetterReason: "Unreadable",
          deadLetterErrorDescription: reason,
        }),
      ),
    retire() {
      if (isRetired || isLost) return;
      isRetired = true;
      void subscription
        .close()
        .catch(() => {})
        .then(() => {
          isDrained = true;
          closeIdle();
        });
    },
    drop() {
      isRetired = true;
      if (!isLost) drop();
    },
  };
  const subscription = receiver.subscribe(handlers, { autoCompleteMessages: false, maxConcurrentCalls: size });
  return opened;
}
