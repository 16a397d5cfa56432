/**
 * What a subscription asks of its channel. RabbitMQ fixes a consumer's prefetch when it begins, and sends the next
 * message with each acknowledgement; so a consumer seems smaller by acknowledgements that are held back for a moment,
 * and is begun anew only when another size is wanted for longer.
 */
export interface ConsumerActions<Message> {
  hand(message: Message): void;
  acknowledge(message: Message): void;
  giveBack(message: Message): void;
  /** Ends the consumer that is; messages may still arrive from it. */
  end(): void;
  begin(prefetch: number): void;
}

/** How many deliveries may be open, and what has to be done to keep to it. Holds no timer: `isOversized` says when. */
export interface Credit<Message> {
  readonly open: number;
  allow(count: number): void;
  /** From the consumer. */
  arrived(message: Message): void;
  acknowledged(message: Message): void;
  released(message: Message): void;
  /** The consumer may bring more than is allowed; when it stays so for a while, `resize` is to be called. */
  isOversized(): boolean;
  /** The consumer could bring more. */
  isUndersized(): boolean;
  /** Begins a consumer of the size that is allowed now, after the one that is has ended. */
  resize(): void;
  /** No more deliveries; those that are open can still be settled. */
  stop(): void;
}

export function createCredit<Message>(
  allowedAtFirst: number,
  isCurrent: (message: Message) => boolean,
  actions: ConsumerActions<Message>,
): Credit<Message> {
  let allowed = allowedAtFirst;
  let open = 0;
  /** Prefetch of the consumer that is; 0: there is none. */
  let size = 0;
  /** Of the open ones: those of consumers that have ended. They use nothing of the one that is. */
  let stranded = 0;
  let isStopped = false;
  /** Arrived beyond what is allowed. */
  const waiting: Message[] = [];
  /** Acknowledged, and the broker does not know it yet. */
  const heldBack: Message[] = [];

  const wanted = (): number => (isStopped ? 0 : allowed);
  const flow = (): void => {
    while (waiting.length > 0 && open < wanted()) {
      const message = waiting.shift();
      if (message === undefined) break;
      open += 1;
      if (!isCurrent(message)) stranded += 1;
      actions.hand(message);
    }
    const keep = Math.max(0, size + stranded - wanted());
    for (const message of heldBack.splice(0, Math.max(0, heldBack.length - keep))) actions.acknowledge(message);
  };
  const endConsumer = (): void => {
    if (size === 0) return;
    size = 0;
    stranded = open;
    actions.end();
  };
  const close = (message: Message): void => {
    open -= 1;
    if (!isCurrent(message)) stranded -= 1;
  };

  return {
    get open() {
      return open;
    },
    allow(count) {
      allowed = count;
      flow();
    },
    arrived(message) {
      if (isStopped) return actions.giveBack(message);
      waiting.push(message);
      flow();
    },
    acknowledged(message) {
      close(message);
      if (size > 0 && isCurrent(message)) heldBack.push(message);
      else actions.acknowledge(message);
      flow();
    },
    released(message) {
      close(message);
      // Given back to a consumer that has room, it would come again at once.
      if (size + stranded > wanted()) endConsumer();
      actions.giveBack(message);
      flow();
    },
    isOversized: () => waiting.length > 0 || (size > 0 && size + stranded > wanted()),
    isUndersized: () => size + stranded < wanted(),
    resize() {
      endConsumer();
      flow();
      for (const message of waiting.splice(0)) actions.giveBack(message);
      size = Math.max(0, wanted() - open);
      if (size > 0) actions.begin(size);
    },
    stop() {
      isStopped = true;
      endConsumer();
      flow();
      for (const message of waiting.splice(0)) actions.giveBack(message);
    },
  };
}
