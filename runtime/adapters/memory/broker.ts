import { readBrokerMessage, writeBrokerMessage } from "../../protocol/ports/broker-text.ts";
import type { Clock, Random } from "../../protocol/ports/surroundings.ts";
import type {
  Broker,
  BrokerMessage,
  DeadLetterMessage,
  DispatchMessage,
  MarkerMessage,
  PublishOutcome,
} from "../../protocol/ports/transport.ts";

/** Probabilities from 0 to 1, drawn from the seeded random for each message that is published. */
export interface MemoryBrokerFaults {
  /** Confirmed, and in no queue. */
  drop: number;
  /** In the queue twice. */
  duplicate: number;
  /** At any place of its queue instead of the last. */
  reorder: number;
  /** In the queue, and the publisher does not learn it. */
  loseConfirm: number;
  /** Each way of a message takes up to so long. */
  delayMs: number;
}

/** A broker that several simulated processes share, each through a connection of its own. */
export interface MemoryBroker {
  connect(): MemoryConnection;
  /** Going away cuts every connection; what the queues hold stays. */
  setState(state: "up" | "blocked" | "away"): void;
  readonly faults: MemoryBrokerFaults;
  /** As an operator may: its messages are gone, and the next to be published is unroutable. */
  removeQueue(queue: string): void;
  /** Loses what waits in the queue. */
  purge(queue: string): void;
  /** Puts a text in a queue as it is. */
  putText(queue: string, text: string): void;
  waiting(queue: string): number;
  /** What the queues hold and what is delivered and neither acknowledged nor released. */
  texts(): readonly string[];
  readonly errorQueue: readonly string[];
  readonly deadLetters: readonly DeadLetterMessage[];
}

/** What one process has of the broker. Its deliveries that nobody acknowledged come back when it is lost. */
export interface MemoryConnection extends Broker {
  /** Breaks the connection; it is there again after a moment. */
  cut(): void;
  /** `silent`: nothing passes, and nobody learns that; `away`: there is no connection. */
  setNetwork(network: Network): void;
  /** Its process has died, or is cut off for good when it lives. */
  kill(): void;
}

type Network = "up" | "silent" | "away";

interface Message {
  readonly text: string;
}

interface Consumer {
  readonly queue: string;
  readonly isOpen: () => boolean;
  readonly take: (message: Message) => void;
  /** Its queue is gone. */
  readonly cancel: () => void;
}

interface Server {
  state: "up" | "blocked" | "away";
  readonly queues: Map<string, Message[]>;
  readonly consumers: Set<Consumer>;
  readonly connections: Set<MemoryConnection>;
  /** Of each subscription: what it has not acknowledged or released. */
  readonly held: Set<Set<Message>>;
  readonly faults: MemoryBrokerFaults;
  readonly errorQueue: string[];
  readonly deadLetters: DeadLetterMessage[];
  readonly clock: Clock;
  readonly random: Random;
}

const RECONNECT_MS = 1_000;
const NEVER = new AbortController().signal;

export function createMemoryBroker({
  clock,
  random,
}: {
  readonly clock: Clock;
  readonly random: Random;
}): MemoryBroker {
  const server: Server = {
    state: "up",
    queues: new Map(),
    consumers: new Set(),
    connections: new Set(),
    held: new Set(),
    faults: { drop: 0, duplicate: 0, reorder: 0, loseConfirm: 0, delayMs: 0 },
    errorQueue: [],
    deadLetters: [],
    clock,
    random,
  };
  return {
    connect: () => openConnection(server),
    setState(state) {
      server.state = state;
      if (state === "away") for (const connection of server.connections) connection.cut();
    },
    faults: server.faults,
    removeQueue(queue) {
      server.queues.delete(queue);
      for (const consumer of [...server.consumers]) if (consumer.queue === queue) consumer.cancel();
    },
    purge: (queue) => void server.queues.get(queue)?.splice(0),
    putText(queue, text) {
      declareQueue(server, queue).push({ text });
      serve(server, queue);
    },
    waiting: (queue) => server.queues.get(queue)?.length ?? 0,
    texts: () =>
      [...server.queues.values(), ...server.held].flatMap((messages) => [...messages].map(({ text }) => text)),
    errorQueue: server.errorQueue,
    deadLetters: server.deadLetters,
  };
}

function openConnection(server: Server): MemoryConnection {
  /** Grows with every connection that is made or lost; what was begun in an earlier one counts no more. */
  let epoch = 0;
  let isUp = server.state !== "away";
  let isClosed = false;
  let network: Network = "up";
  /** Wait for the end of a silence, or of the connection. */
  const silenced = new Set<() => void>();
  const declared = new Set<string>();
  const subscriptions = new Set<{ readonly held: Set<Message>; open(): void; lose(): void }>();

  const travel = async (): Promise<void> => {
    const { delayMs } = server.faults;
    if (delayMs > 0) await server.clock.sleep(server.random.next() * delayMs, NEVER);
    if (network === "silent" && isUp) await new Promise<void>((resolve) => silenced.add(resolve));
  };
  const goOn = (): void => {
    for (const resolve of silenced) resolve();
    silenced.clear();
  };

  const lose = (): void => {
    if (!isUp) return;
    isUp = false;
    epoch += 1;
    goOn();
    declared.clear();
    for (const subscription of subscriptions) subscription.lose();
    if (!isClosed) void reconnect();
  };
  const reconnect = async (): Promise<void> => {
    while (!isClosed && !isUp) {
      await server.clock.sleep(RECONNECT_MS, NEVER);
      if (isClosed || server.state === "away" || network !== "up") continue;
      isUp = true;
      epoch += 1;
      for (const subscription of subscriptions) subscription.open();
    }
  };
  const end = (): void => {
    isClosed = true;
    lose();
    for (const { held } of subscriptions) server.held.delete(held);
    subscriptions.clear();
    server.connections.delete(connection);
  };

  const publishOne = (message: BrokerMessage): PublishOutcome => {
    const { faults } = server;
    if (message.kind === "dead-letter") {
      server.deadLetters.push(message);
      return "confirmed";
    }
    if (!declared.has(message.queue)) declareQueue(server, message.queue);
    declared.add(message.queue);
    const queue = server.queues.get(message.queue);
    if (queue === undefined) {
      declared.delete(message.queue);
      return "unroutable";
    }
    const text = writeBrokerMessage(message);
    const copies = happens(server, faults.drop) ? 0 : happens(server, faults.duplicate) ? 2 : 1;
    for (let copy = 0; copy < copies; copy += 1) {
      const place = happens(server, faults.reorder)
        ? Math.floor(server.random.next() * (queue.length + 1))
        : queue.length;
      queue.splice(place, 0, { text });
    }
    serve(server, message.queue);
    return happens(server, faults.loseConfirm) ? "unknown" : "confirmed";
  };

  const connection: MemoryConnection = {
    async publish(messages) {
      const unknown = messages.map((): PublishOutcome => "unknown");
      const begun = epoch;
      await travel();
      if (!isUp || epoch !== begun || server.state === "blocked") return unknown;
      const outcomes = messages.map(publishOne);
      await travel();
      return epoch === begun ? outcomes : unknown;
    },
    subscribe(queue, prefetch, onDelivery) {
      let allowed = prefetch;
      let isStopped = false;
      const held = new Set<Message>();
      server.held.add(held);
      const forget = (): void => {
        subscriptions.delete(subscription);
        server.held.delete(held);
      };

      const settle = (message: Message, begun: number, isReturned: boolean): Promise<void> => {
        if (begun === epoch && held.delete(message)) {
          if (isReturned) server.queues.get(queue)?.unshift(message);
          serve(server, queue);
          if (isStopped && held.size === 0) forget();
        }
        return Promise.resolve();
      };
      const deliver = async (message: Message): Promise<void> => {
        const begun = epoch;
        held.add(message);
        await travel();
        if (begun !== epoch || !held.has(message)) return;
        if (isStopped) return settle(message, begun, true);
        const content = readBrokerMessage(message.text);
        if (typeof content === "string" || content.kind === "dead-letter") {
          server.errorQueue.push(message.text);
          return settle(message, begun, false);
        }
        onDelivery({
          message: content satisfies DispatchMessage | MarkerMessage,
          acknowledge: () => settle(message, begun, false),
          release: () => settle(message, begun, true),
        });
      };
      const consumer: Consumer = {
        queue,
        isOpen: () => held.size < allowed,
        take: (message) => void deliver(message),
        cancel() {
          const begun = epoch;
          server.consumers.delete(consumer);
          held.clear();
          void server.clock.sleep(RECONNECT_MS, NEVER).then(() => {
            if (begun === epoch) subscription.open();
          });
        },
      };
      const subscription = {
        held,
        open() {
          if (isStopped) return;
          declareQueue(server, queue);
          server.consumers.add(consumer);
          serve(server, queue);
        },
        lose() {
          server.consumers.delete(consumer);
          server.queues.get(queue)?.unshift(...held);
          held.clear();
          serve(server, queue);
        },
      };
      subscriptions.add(subscription);
      if (isUp) subscription.open();
      return {
        prefetch(count) {
          allowed = count;
          serve(server, queue);
        },
        stop() {
          isStopped = true;
          server.consumers.delete(consumer);
          return Promise.resolve();
        },
      };
    },
    depth: (queue) => Promise.resolve(isUp ? (server.queues.get(queue)?.length ?? 0) : null),
    condition() {
      if (!isUp) return { state: "away", reason: "the connection was lost" };
      if (server.state === "blocked") return { state: "blocked", reason: "low on memory" };
      return { state: "connected", reason: null };
    },
    close() {
      end();
      return Promise.resolve();
    },
    cut: lose,
    setNetwork(next) {
      network = next;
      if (next === "away") lose();
      if (next !== "silent") goOn();
    },
    kill: end,
  };
  server.connections.add(connection);
  if (!isUp) void reconnect();
  return connection;
}

/** Gives what waits in a queue to those of its consumers that may have more, in turn. */
function serve(server: Server, name: string): void {
  const queue = server.queues.get(name);
  while (queue !== undefined && queue.length > 0) {
    const consumer = [...server.consumers].find((one) => one.queue === name && one.isOpen());
    const message = consumer === undefined ? undefined : queue.shift();
    if (consumer === undefined || message === undefined) return;
    // The last to be served is the last to be asked again.
    server.consumers.delete(consumer);
    server.consumers.add(consumer);
    consumer.take(message);
  }
}

function declareQueue(server: Server, name: string): Message[] {
  const queue = server.queues.get(name) ?? [];
  server.queues.set(name, queue);
  return queue;
}

function happens(server: Server, probability: number): boolean {
  return probability > 0 && server.random.next() < probability;
}
