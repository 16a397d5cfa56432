import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { describeError } from "../../core/errors.ts";
import type { JobId } from "../../core/ids.ts";
import type { Logger } from "../../core/logger.ts";
import type { Doorbell, DoorbellTopic } from "../../protocol/ports/transport.ts";
import type { Database, DatabaseAddress } from "./pool.ts";

export const CHANNEL = "turno";
/** What a ring for a queue says before the queue's name. */
export const QUEUE_TOPIC = "queue:";
/** At most one ring a topic in this time; the first goes out at once. */
const COALESCE_MS = 10;
/** A database that is away must not hold up an end. */
const CLOSE_LIMIT_MS = 1_000;
/** The listening session proves itself this often; a half-open connection is noticed within twice of it. */
const PROBE_MS = 5_000;
const RECONNECT_MS = { first: 250, most: 5_000 };

export interface DoorbellOptions {
  /** Rings go through this pool, each in a small statement of its own, never in the transaction that has news. */
  readonly database: Database;
  /** The listener's own, direct connection. */
  readonly address: DatabaseAddress;
  readonly logger: Logger;
}

/** NOTIFY as a coalesced hint. A lost ring costs one poll, so errors are never raised. */
export function createDoorbell({ database, address, logger }: DoorbellOptions): Doorbell {
  const pending = new Set<string>();
  const quiet = new Map<string, NodeJS.Timeout>();
  let sending: Promise<void> | null = null;
  let closed = false;

  function ring(topic: DoorbellTopic): void {
    if (closed) return;
    const text = encodeTopic(topic);
    pending.add(text);
    if (!quiet.has(text)) void send();
  }

  /** Everything that waits and is not to be quiet; one after another, so that the last news comes last. */
  function send(): Promise<void> {
    sending ??= sendAll().finally(() => {
      sending = null;
    });
    return sending;
  }

  async function sendAll(): Promise<void> {
    try {
      for (;;) {
        const ready = [...pending].filter((text) => !quiet.has(text));
        if (ready.length === 0) return;
        for (const text of ready) {
          pending.delete(text);
          if (!closed) quiet.set(text, setTimeout(() => endQuiet(text), COALESCE_MS).unref());
        }
        await database.query(`select pg_notify('${CHANNEL}', topic) from unnest($1::text[]) as topic`, [ready]);
      }
    } catch (error) {
      logger.debug("a ring was lost; the next poll finds the news", { error: describeError(error) });
    }
  }

  function endQuiet(text: string): void {
    quiet.delete(text);
    if (pending.has(text)) void send();
  }

  return {
    ring,
    listen(listener, signal) {
      void listenForever({ address, logger, signal, ...listener });
    },
    async close() {
      closed = true;
      for (const timer of quiet.values()) clearTimeout(timer);
      quiet.clear();
      // What is said shortly before the end is heard too: a command that enqueues ends at once.
      const said = send().then(() => (pending.size > 0 ? send() : undefined));
      await Promise.race([said, delay(CLOSE_LIMIT_MS, undefined, { ref: false })]);
      pending.clear();
    },
  };
}

interface Listening {
  readonly address: DatabaseAddress;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  onRing(topic: DoorbellTopic): void;
  onGap(): void;
}

async function listenForever(options: Listening): Promise<void> {
  let waitMs = RECONNECT_MS.first;
  let complained = false;
  while (!options.signal.aborted) {
    try {
      await listenOnce(options, () => {
        waitMs = RECONNECT_MS.first;
        if (complained) options.logger.info("the doorbell listens again");
        complained = false;
        options.onGap();
      });
    } catch (error) {
      if (options.signal.aborted) return;
      if (!complained)
        options.logger.warn("the doorbell cannot listen; polling meanwhile", { error: describeError(error) });
      complained = true;
      await delay(waitMs, undefined, { signal: options.signal, ref: false }).catch(() => {});
      waitMs = Math.min(RECONNECT_MS.most, waitMs * 2);
    }
  }
}

/** Listens until the connection fails (throws) or the signal aborts (returns). */
async function listenOnce(options: Listening, onListening: () => void): Promise<void> {
  const client = new pg.Client({
    connectionString: options.address.connectionString,
    application_name: "turno-doorbell",
    connectionTimeoutMillis: 5_000,
    query_timeout: PROBE_MS,
    // A pooler refuses sessions with a setting of their own, and to listen through one hears nothing.
    statement_timeout: PROBE_MS,
    keepAlive: true,
  });
  const ended = new AbortController();
  let failure: unknown = null;
  client.on("error", (error) => {
    failure ??= error;
    ended.abort();
  });
  client.on("end", () => ended.abort());
  client.on("notification", (message) => {
    const topic = decodeTopic(message.payload ?? "");
    if (topic !== null) options.onRing(topic);
  });
  try {
    await client.connect();
    await client.query(`listen ${CHANNEL}`);
    onListening();
    const stop = AbortSignal.any([options.signal, ended.signal]);
    while (!stop.aborted) {
      await delay(PROBE_MS, undefined, { signal: stop, ref: false }).catch(() => {});
      if (!stop.aborted) await client.query("select 1");
    }
    if (!options.signal.aborted) throw failure ?? new Error("the connection ended");
  } finally {
    // A half-open connection would never answer a polite goodbye.
    void client.end().catch(() => {});
    (client as unknown as { connection?: { stream?: { destroy(): void } } }).connection?.stream?.destroy();
  }
}

function encodeTopic(topic: DoorbellTopic): string {
  if (topic.kind === "queue") return `${QUEUE_TOPIC}${topic.queue}`;
  if (topic.kind === "cancel") return `cancel:${topic.jobId}`;
  return topic.kind;
}

function decodeTopic(text: string): DoorbellTopic | null {
  if (text.startsWith(QUEUE_TOPIC)) return { kind: "queue", queue: text.slice(QUEUE_TOPIC.length) };
  if (text.startsWith("cancel:")) return { kind: "cancel", jobId: text.slice(7) as JobId };
  if (text === "schedules" || text === "revision") return { kind: text };
  return null;
}
