/**
 * What a subscription asks of its receivers. One asks for as many messages as its size when it begins, and for one more
 * with each message that it is told is processed; so receivers together seem smaller by processed messages of which
 * they are not told yet, seem larger by a further receiver, and are begun anew only when another size is wanted for longer.
 */
export interface SlotActions<Message> {
  hand(message: Message): void;
  /** One that was handed to nobody. */
  giveBack(message: Message): void;
  /** The receiver may ask for one more in its place. */
  processed(message: Message): void;
  /** A further receiver of this size. */
  begin(size: number): void;
  /** No receiver that is asks for more; messages may still arrive from them. */
  retire(): void;
}

/** How many deliveries may be open, and what has to be done to keep to it. Holds no timer: `isOversized` says when. */
export interface Slots<Message> {
  readonly open: number;
  allow(count: number): void;
  /** From a receiver. */
  arrived(message: Message): void;
  /** From a receiver, and settled already: nobody is given it. */
  passed(message: Message): void;
  acknowledged(message: Message): void;
  /** Is about to be given back. */
  releasing(): void;
  /** Was given back. */
  released(message: Message): void;
  /** Receivers may bring more than is allowed; when it stays so for a while, `resize` is to be called. */
  isOversized(): boolean;
  /** A further receiver could bring more: `widen` begins it. */
  isUndersized(): boolean;
  widen(): void;
  /** Begins one receiver of the size that is allowed now in the place of those that are. */
  resize(): void;
  /** No more deliveries; those that are open can still be settled. */
  stop(): void;
}

/** `isCurrent`: the receiver of the message is not retired. */
export function createSlots<Message>(
  allowedAtFirst: number,
  isCurrent: (message: Message) => boolean,
  actions: SlotActions<Message>,
): Slots<Message> {
  let allowed = allowedAtFirst;
  let open = 0;
  /** Messages that the receivers have asked for and that have not arrived. */
  let asked = 0;
  let isStopped = false;
  /** Arrived beyond what is allowed. */
  const waiting: Message[] = [];
  /** Processed, and the receiver does not know it yet. */
  const heldBack: Message[] = [];

  const wanted = (): number => (isStopped ? 0 : allowed);
  const coming = (): number => open + asked + waiting.length;
  const flow = (): void => {
    while (waiting.length > 0 && open < wanted()) {
      const message = waiting.shift();
      if (message === undefined) break;
      open += 1;
      actions.hand(message);
    }
    while (heldBack.length > 0 && coming() < wanted()) {
      const message = heldBack.shift();
      if (message === undefined) break;
      asked += 1;
      actions.processed(message);
    }
  };
  const over = (message: Message): void => {
    if (isCurrent(message)) heldBack.push(message);
    else actions.processed(message);
  };
  const retire = (): void => {
    asked = 0;
    actions.retire();
    for (const message of heldBack.splice(0)) actions.processed(message);
  };
  const giveBackWaiting = (): void => {
    for (const message of waiting.splice(0)) {
      actions.giveBack(message);
      over(message);
    }
  };
  const begin = (): void => {
    const size = wanted() - coming();
    if (size <= 0) return;
    asked += size;
    actions.begin(size);
  };
  const resize = (): void => {
    retire();
    flow();
    giveBackWaiting();
    begin();
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
      // What a retired receiver had asked for is not counted any more.
      if (isStopped || !isCurrent(message)) {
        actions.giveBack(message);
        actions.processed(message);
        return;
      }
      asked -= 1;
      waiting.push(message);
      flow();
    },
    passed(message) {
      if (isCurrent(message)) asked -= 1;
      over(message);
      flow();
    },
    acknowledged(message) {
      open -= 1;
      over(message);
      flow();
    },
    releasing() {
      // Given back while a receiver asks for more than is allowed, it would come again at once.
      if (asked > 0 && coming() > wanted()) retire();
    },
    released(message) {
      open -= 1;
      over(message);
      flow();
    },
    isOversized: () => waiting.length > 0 || (asked > 0 && coming() > wanted()),
    isUndersized: () => coming() < wanted(),
    widen: begin,
    resize,
    stop() {
      isStopped = true;
      retire();
      giveBackWaiting();
    },
  };
}
