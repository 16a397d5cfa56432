import { setTimeout as delay } from "node:timers/promises";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { Doorbell, DoorbellTopic } from "../../protocol/ports/transport.ts";
import { CHANNEL, listenTogether, QUEUE_TOPIC } from "./doorbell-listener.ts";
import type { Database, DatabaseAddress } from "./pool.ts";

/** At most one ring a topic in this time; the first goes out at once. */
const COALESCE_MS = 10;
/** A database that is away must not hold up an end. */
const CLOSE_LIMIT_MS = 1_000;

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
    listen: listenTogether({ address, logger }),
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

function encodeTopic(topic: DoorbellTopic): string {
  if (topic.kind === "queue") return `${QUEUE_TOPIC}${topic.queue}`;
  if (topic.kind === "cancel") return `cancel:${topic.jobId}`;
  return topic.kind;
}
