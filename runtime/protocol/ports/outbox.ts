import type { BrokerMessage } from "./transport.ts";

/** What tells workers of jobs: the database itself, or a broker that hears of them through the outbox. */
export const TRANSPORTS = ["postgres", "rabbitmq", "servicebus"] as const;
export type Transport = (typeof TRANSPORTS)[number];

export interface Installation {
  /** Short and random, minted once: part of every name that the installation has in a broker. */
  readonly id: string;
  readonly transport: Transport;
}

/** What becomes of a message after an attempt to publish it. `put-off`: others first, this one again in a while. */
export type RelayVerdict = "remove" | "keep" | "put-off";

/** Publishes messages and judges each of them, in their order; never rejects, and is over within 20 s. */
export type PublishBatch = (messages: readonly BrokerMessage[]) => Promise<readonly RelayVerdict[]>;

/** `taken: 0`: nothing is due. */
export interface RelayedBatch {
  readonly taken: number;
  readonly removed: number;
}

export interface OutboxCondition {
  /** Messages that are not published yet; from {@link COUNTED_MESSAGES} on nobody counts. */
  readonly messages: number;
  /** Age of the oldest of them by the database's clock; null: there is none. */
  readonly oldestMs: number | null;
}

export const COUNTED_MESSAGES = 10_000;

export interface Redispatched {
  readonly queue: string;
  readonly jobs: number;
}

/**
 * Messages that were written in the transactions that they tell of. Whatever brings a job into its queue writes one by
 * itself while the transport is a broker; nobody calls this port for it.
 */
export interface OutboxStore {
  loadInstallation(): Promise<Installation>;
  /**
   * Records the transport. Going to a broker, everything that is in a queue gets a message; going to PostgreSQL, the
   * outbox is emptied. Jobs that are put in a queue meanwhile are part of the one or the other. False: it was so already.
   */
  setTransport(transport: Transport): Promise<boolean>;
  /** Publishes the oldest messages that are due, while nobody else does. Null: somebody else does. */
  relayBatch(limit: number, publish: PublishBatch): Promise<RelayedBatch | null>;
  readOutbox(): Promise<OutboxCondition>;
  /**
   * A marker for each queue that has a job in it for longer than `agedMs` whose message has left the outbox, unless one
   * younger than `againMs` is on its way to the queue; the longer none has come out, the longer, up to `longestMs`.
   * Returns how many it wrote.
   */
  writeMarkers(options: {
    readonly agedMs: number;
    readonly againMs: number;
    readonly longestMs: number;
  }): Promise<number>;
  /** A marker came out of its queue, so everything before it did. One that is not known is nothing. */
  consumeMarker(marker: string): Promise<void>;
  /**
   * Writes messages with the same tokens for jobs that are still in the queue of one marker, which was consumed at least
   * `settledMs` ago: at most `limit`, the others with the next call. Null: there is no such marker.
   */
  redispatchJobs(options: { readonly settledMs: number; readonly limit: number }): Promise<Redispatched | null>;
}
