import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { describeError } from "../../core/errors.ts";
import type { JobId } from "../../core/ids.ts";
import type { Logger } from "../../core/logger.ts";
import type { Doorbell, DoorbellTopic } from "../../protocol/ports/transport.ts";
import type { DatabaseAddress } from "./pool.ts";

export const CHANNEL = "turno";
/** What a ring for a queue says before the queue's name. */
export const QUEUE_TOPIC = "queue:";
/** The listening session proves itself this often; a half-open connection is noticed within twice of it. */
const PROBE_MS = 5_000;
const RECONNECT_MS = { first: 250, most: 5_000 };

type Listener = Parameters<Doorbell["listen"]>[0];

/**
 * All listeners of a process hear through one session: each further one would be another process of the database and another
 * wake-up here at every ring. The session begins with the first listener and ends with the last.
 */
export function listenTogether({
  address,
  logger,
}: {
  readonly address: DatabaseAddress;
  readonly logger: Logger;
}): Doorbell["listen"] {
  const listeners = new Set<Listener>();
  let ending: AbortController | null = null;
  let listening = false;

  function begin(): void {
    const controller = new AbortController();
    ending = controller;
    const { signal } = controller;
    void listenForever({
      address,
      logger,
      signal,
      onRing: (topic) => listeners.forEach((listener) => void listener.onRing(topic)),
      onListening() {
        if (signal.aborted) return;
        listening = true;
        for (const listener of listeners) listener.onGap();
      },
      onLost() {
        if (!signal.aborted) listening = false;
      },
    });
  }

  return (listener, signal) => {
    if (signal.aborted) return;
    listeners.add(listener);
    if (ending === null) begin();
    // Who comes later may have missed what was rung before.
    else if (listening) queueMicrotask(() => listeners.has(listener) && listener.onGap());
    signal.addEventListener(
      "abort",
      () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        ending?.abort();
        ending = null;
        listening = false;
      },
      { once: true },
    );
  };
}

interface Listening {
  readonly address: DatabaseAddress;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  onRing(topic: DoorbellTopic): void;
  onListening(): void;
  onLost(): void;
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
        options.onListening();
      });
    } catch (error) {
      options.onLost();
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

function decodeTopic(text: string): DoorbellTopic | null {
  if (text.startsWith(QUEUE_TOPIC)) return { kind: "queue", queue: text.slice(QUEUE_TOPIC.length) };
  if (text.startsWith("cancel:")) return { kind: "cancel", jobId: text.slice(7) as JobId };
  if (text === "schedules" || text === "revision" || text === "sync") return { kind: text };
  return null;
}
