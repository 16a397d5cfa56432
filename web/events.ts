import type { Context } from "hono";
import { type SSEMessage, streamSSE } from "hono/streaming";
import type { PulseTopic } from "../runtime/protocol/ports/panel.ts";
import type { Clock } from "../runtime/protocol/ports/surroundings.ts";
import type { LiveFeed } from "./live.ts";
import { ProblemError } from "./problem.ts";

/** Keeps proxies from closing a quiet stream. */
const HEARTBEAT_MS = 15_000;
const MAX_STREAMS = 256;

/** Server-sent events of one application: every stream hears of the topics it asked for. */
export interface EventStreams {
  /** `greeting` goes out when changes from then on cannot be missed; `messages` turns topics into events. */
  open(
    c: Context,
    options: {
      readonly topics: readonly PulseTopic[];
      readonly greeting: SSEMessage;
      readonly messages: (topics: readonly PulseTopic[]) => readonly SSEMessage[];
    },
  ): Response;
}

export function createEventStreams({ feed, clock }: { readonly feed: LiveFeed; readonly clock: Clock }): EventStreams {
  let open = 0;
  return {
    open(c, { topics, greeting, messages }) {
      if (open >= MAX_STREAMS) {
        throw new ProblemError(503, `Expected at most ${MAX_STREAMS} open event streams; close one of them.`, {
          headers: { "Retry-After": "30" },
        });
      }
      open += 1;
      c.header("Cache-Control", "no-store");
      c.header("X-Accel-Buffering", "no");
      return streamSSE(c, async (stream) => {
        const pending = new Set<PulseTopic>();
        let wake = new AbortController();
        const subscription = feed.subscribe((changed) => {
          for (const topic of changed) if (topics.includes(topic)) pending.add(topic);
          if (pending.size > 0) wake.abort();
        });
        stream.onAbort(() => wake.abort());
        try {
          await subscription.ready;
          await stream.writeSSE(greeting);
          while (!stream.aborted) {
            if (pending.size === 0) await clock.sleep(HEARTBEAT_MS, wake.signal);
            wake = new AbortController();
            const changed = topics.filter((topic) => pending.delete(topic));
            if (changed.length === 0) await stream.write(": still here\n\n");
            for (const message of messages(changed)) await stream.writeSSE(message);
          }
        } finally {
          subscription.stop();
          open -= 1;
        }
      });
    },
  };
}
