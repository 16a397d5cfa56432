import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo, Server } from "node:net";
import rhea, {
  type Connection,
  type Container,
  type Delivery,
  type EventContext,
  type Message,
  type Receiver,
  type Sender,
} from "rhea";

const KEY_NAME = "turno";
const BATCH_FORMAT = 0x80013700;
/** A batch's limit in the tier Standard. */
const MESSAGE_BYTES = 256 * 1024;

/** States of a delivery, which the types of rhea leave out. */
const STATES = rhea.message as unknown as Readonly<
  Record<"accepted" | "rejected", (fields: object) => { described(): never }>
>;
const ACCEPTED = STATES.accepted({});
const LOCK_LOST = STATES.rejected({
  error: { condition: "com.microsoft:message-lock-lost", description: "The lock supplied is invalid." },
});

interface StoredMessage {
  readonly sequence: number;
  readonly id: string;
  readonly body: Buffer;
  readonly properties: Readonly<Record<string, string>>;
  deliveries: number;
  reason: string | null;
}

interface Lock {
  readonly message: StoredMessage;
  readonly queue: StoredQueue;
  readonly connection: Connection;
  readonly timer: NodeJS.Timeout;
}

interface StoredQueue {
  readonly name: string;
  waiting: StoredMessage[];
  readonly deadLetters: StoredMessage[];
  readonly senders: Set<Sender>;
}

export interface ServiceBusServerOptions {
  /** How long a delivered message is its receiver's. */
  readonly lockMs?: number;
  /** What is left of a lock when its connection is lost; the real one waits for the lock's end. */
  readonly lockAfterLossMs?: number;
}

/** What of Azure Service Bus Turno uses, spoken over AMQP 1.0: claims, queues, batches, peek-lock. No management links. */
export interface ServiceBusServer {
  readonly port: number;
  readonly key: string;
  /** Through a proxy on another port of this machine. */
  connectionString(port?: number, key?: string): string;
  createQueue(name: string): void;
  /** Closes its links, as the real one does. */
  deleteQueue(name: string): void;
  put(queue: string, body: string): void;
  /** Those that wait, in their order. */
  messages(queue: string): readonly StoredMessage[];
  deadLetters(queue: string): readonly StoredMessage[];
  /** How often each message that is not gone was delivered. */
  locked(queue: string): number;
  /** Closes the links of a queue's receivers, as the real one does with idle ones. */
  detachReceivers(queue: string): void;
  /** Refuses what is sent, or takes it again. */
  setBusy(isBusy: boolean): void;
  /** Batches that were taken, by how many messages they held. */
  readonly batches: number[];
  close(): Promise<void>;
}

export async function startServiceBusServer(options: ServiceBusServerOptions = {}): Promise<ServiceBusServer> {
  const { lockMs = 60_000, lockAfterLossMs = 300 } = options;
  const key = randomBytes(32).toString("base64");
  const container = rhea.create_container({ id: "servicebus" });
  (container.sasl_server_mechanisms as unknown as { enable_anonymous(): void }).enable_anonymous();
  const queues = new Map<string, StoredQueue>();
  const locks = new Map<string, Lock>();
  const connections = new Set<Connection>();
  const batches: number[] = [];
  const sent = new WeakMap<Sender, number>();
  let sequence = 0;
  let isBusy = false;

  const store = (queue: StoredQueue, body: Buffer, message?: Message): void => {
    sequence += 1;
    queue.waiting.push({
      sequence,
      id: String(message?.message_id ?? sequence),
      body,
      properties: (message?.application_properties ?? {}) as Record<string, string>,
      deliveries: 0,
      reason: null,
    });
  };
  const pump = (queue: StoredQueue): void => {
    for (const sender of queue.senders) {
      while (sender.is_open() && hasCredit(sender) && queue.waiting.length > 0) {
        const message = queue.waiting.shift();
        if (message !== undefined) deliver(queue, sender, message);
      }
    }
  };
  /** What was handed to rhea and is not yet written uses credit, too. */
  const hasCredit = (sender: Sender): boolean => {
    const link = sender as unknown as { readonly delivery_count: number; readonly credit: number };
    return (sent.get(sender) ?? 0) < link.delivery_count + link.credit;
  };
  const deliver = (queue: StoredQueue, sender: Sender, message: StoredMessage): void => {
    const tag = randomBytes(16);
    const lockId = tag.toString("hex");
    const timer = setTimeout(() => unlock(lockId), lockMs).unref();
    locks.set(lockId, { message, queue, connection: sender.connection, timer });
    message.deliveries += 1;
    sent.set(sender, (sent.get(sender) ?? 0) + 1);
    sender.send(
      {
        message_id: message.id,
        delivery_count: message.deliveries - 1,
        application_properties: message.properties,
        message_annotations: { "x-opt-locked-until": new Date(Date.now() + lockMs) },
        body: rhea.message.data_section(message.body),
      },
      tag,
    );
  };
  const take = (lockId: string): Lock | null => {
    const lock = locks.get(lockId);
    if (lock === undefined) return null;
    clearTimeout(lock.timer);
    locks.delete(lockId);
    return lock;
  };
  const unlock = (lockId: string): void => {
    const lock = take(lockId);
    if (lock === null) return;
    lock.queue.waiting.push(lock.message);
    lock.queue.waiting.sort((one, other) => one.sequence - other.sequence);
    pump(lock.queue);
  };
  const settle = (context: EventContext, outcome: (lock: Lock, lockId: string) => void): void => {
    const { delivery } = context;
    if (delivery === undefined) return;
    const lockId = tagOf(delivery);
    const lock = locks.get(lockId);
    if (lock !== undefined) outcome(lock, lockId);
    delivery.update(true, lock === undefined ? LOCK_LOST.described() : ACCEPTED.described());
  };

  container.on("connection_open", ({ connection }: EventContext) => connections.add(connection));
  for (const event of ["disconnected", "connection_close"]) {
    container.on(event, ({ connection }: EventContext) => {
      connections.delete(connection);
      for (const queue of queues.values()) {
        for (const sender of queue.senders) if (sender.connection === connection) queue.senders.delete(sender);
      }
      for (const [lockId, lock] of locks) {
        if (lock.connection === connection) setTimeout(() => unlock(lockId), lockAfterLossMs).unref();
      }
    });
  }
  container.on("sender_open", ({ sender }: EventContext) => {
    if (sender === undefined) return;
    const address = addressOf(sender.source);
    sender.set_source({ address });
    sender.set_target({ address: addressOf(sender.target) });
    if (address === "$cbs") return;
    const queue = queues.get(address);
    if (queue === undefined) return sender.close(notFound(address));
    queue.senders.add(sender);
  });
  container.on("sender_close", ({ sender }: EventContext) => {
    for (const queue of queues.values()) if (sender !== undefined) queue.senders.delete(sender);
  });
  container.on("receiver_open", ({ receiver }: EventContext) => {
    if (receiver === undefined) return;
    const address = addressOf(receiver.target);
    receiver.set_source({ address: addressOf(receiver.source) });
    receiver.set_target({ address });
    if (address !== "$cbs" && !queues.has(address)) receiver.close(notFound(address));
  });
  container.on("sendable", ({ sender }: EventContext) => {
    const queue = sender === undefined ? undefined : queues.get(addressOf(sender.source));
    if (queue !== undefined) pump(queue);
  });
  container.on("sender_draining", ({ sender }: EventContext) => {
    for (const queue of queues.values()) if (sender !== undefined) queue.senders.delete(sender);
    sender?.set_drained(true);
  });
  container.on("message", (context: EventContext) => {
    const { receiver, delivery, message } = context;
    if (receiver === undefined || delivery === undefined || message === undefined) return;
    const address = addressOf(receiver.target);
    if (address === "$cbs") {
      delivery.accept();
      answerClaim(context, message, key);
      return;
    }
    const queue = queues.get(address);
    if (queue === undefined) return;
    if (isBusy) return void delivery.reject({ condition: "com.microsoft:server-busy", description: "Busy." });
    const isBatch = (delivery as unknown as { readonly format: number }).format === BATCH_FORMAT;
    const messages = isBatch ? unpack(message as unknown as Buffer) : [message];
    for (const one of messages) store(queue, bodyOf(one), one);
    batches.push(messages.length);
    delivery.accept();
    pump(queue);
  });
  container.on("accepted", (context: EventContext) => settle(context, (_lock, lockId) => take(lockId)));
  for (const event of ["released", "modified"]) {
    container.on(event, (context: EventContext) => settle(context, (_lock, lockId) => unlock(lockId)));
  }
  container.on("rejected", (context: EventContext) =>
    settle(context, ({ queue, message }, lockId) => {
      const state = context.delivery?.remote_state as unknown as
        | { readonly error?: { readonly info?: { readonly DeadLetterErrorDescription?: string } } }
        | undefined;
      message.reason = state?.error?.info?.DeadLetterErrorDescription ?? null;
      take(lockId);
      queue.deadLetters.push(message);
    }),
  );
  for (const event of ["error", "connection_error", "protocol_error", "session_error"]) container.on(event, () => {});

  const server: Server = listen(container);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const expectQueue = (name: string): StoredQueue => {
    const queue = queues.get(name);
    if (queue === undefined) throw new Error(`there is no queue ${name}`);
    return queue;
  };
  return {
    port,
    key,
    batches,
    connectionString: (through = port, withKey = key) =>
      `Endpoint=sb://127.0.0.1:${through}/;SharedAccessKeyName=${KEY_NAME};SharedAccessKey=${withKey};UseDevelopmentEmulator=true`,
    createQueue(name) {
      if (!queues.has(name)) queues.set(name, { name, waiting: [], deadLetters: [], senders: new Set() });
    },
    deleteQueue(name) {
      const queue = expectQueue(name);
      queues.delete(name);
      for (const sender of queue.senders) sender.close(notFound(name));
      for (const connection of connections) {
        connection.each_receiver((receiver: Receiver) => {
          if (addressOf(receiver.target) === name) receiver.close(notFound(name));
        });
      }
    },
    put(name, body) {
      const queue = expectQueue(name);
      store(queue, Buffer.from(body));
      pump(queue);
    },
    messages: (name) => [...expectQueue(name).waiting],
    deadLetters: (name) => [...expectQueue(name).deadLetters],
    locked: (name) => [...locks.values()].filter(({ queue }) => queue.name === name).length,
    detachReceivers(name) {
      const idle = { condition: "amqp:link:detach-forced", description: "The link is force detached. It was idle." };
      for (const sender of expectQueue(name).senders) sender.close(idle);
    },
    setBusy(busy) {
      isBusy = busy;
    },
    async close() {
      for (const { timer } of locks.values()) clearTimeout(timer);
      const closed = once(server, "close");
      server.close();
      for (const connection of connections) {
        (connection as unknown as { readonly socket: { destroy(): void } }).socket.destroy();
      }
      await closed;
    },
  };
}

function listen(container: Container): Server {
  return container.listen({
    host: "127.0.0.1",
    port: 0,
    sender_options: { autosettle: false },
    receiver_options: { autoaccept: false, max_message_size: MESSAGE_BYTES },
  } as never);
}

/** The link's own state tells the client that it is authorised for an audience. */
function answerClaim({ connection }: EventContext, message: Message, key: string): void {
  const isRight = isSigned(String(message.body), key);
  const sender = connection.find_sender((link: Sender) => addressOf(link.source) === "$cbs");
  sender?.send({
    correlation_id: String(message.message_id),
    application_properties: isRight
      ? { "status-code": 202, "status-description": "Accepted" }
      : { "status-code": 401, "status-description": "InvalidSignature: The token has an invalid signature." },
    body: null,
  });
}

function isSigned(token: string, key: string): boolean {
  const fields = new URLSearchParams(token.replace(/^SharedAccessSignature /, ""));
  const text = `${encodeURIComponent(fields.get("sr") ?? "")}\n${fields.get("se")}`;
  return createHmac("sha256", key).update(text).digest("base64") === fields.get("sig");
}

function unpack(encoded: Buffer): readonly Message[] {
  const body = rhea.message.decode(encoded).body as { readonly content: Buffer | readonly Buffer[] };
  const sections = Buffer.isBuffer(body.content) ? [body.content] : body.content;
  return sections.map((section) => rhea.message.decode(section) as unknown as Message);
}

function bodyOf({ body }: Message): Buffer {
  const content: unknown = (body as { readonly content?: unknown }).content;
  if (!Buffer.isBuffer(content)) throw new Error("expected a body of one section of data");
  return content;
}

function addressOf(terminus: unknown): string {
  return String((terminus as { readonly address?: unknown } | undefined)?.address ?? "");
}

function tagOf(delivery: Delivery): string {
  return Buffer.from(delivery.tag as Buffer).toString("hex");
}

function notFound(name: string) {
  return {
    condition: "amqp:not-found",
    description: `The messaging entity '${name}' could not be found.`,
  };
}
