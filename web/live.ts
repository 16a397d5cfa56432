import { describeError } from "../runtime/core/errors.ts";
import type { Logger } from "../runtime/core/logger.ts";
import type { PanelQueries, Pulse, PulseTopic } from "../runtime/protocol/ports/panel.ts";
import type { Clock } from "../runtime/protocol/ports/surroundings.ts";

export const PULSE_TOPICS = ["jobs", "workers", "sync"] as const satisfies readonly PulseTopic[];
/** How often the database is asked whether something changed, while somebody listens. */
const POLL_MS = 1_000;

/** Tells every open page that something changed; one poller for all of them, none when nobody listens. */
export interface LiveFeed {
  /** Calls back with what changed; `ready` resolves when changes from now on cannot be missed. */
  subscribe(listener: (topics: readonly PulseTopic[]) => void): { readonly ready: Promise<void>; stop(): void };
  /** Grows with every change and with every start of the poller. */
  generation(): number;
}

export function createLiveFeed(parts: {
  readonly panel: Pick<PanelQueries, "loadPulse">;
  readonly clock: Clock;
  readonly logger: Logger;
}): LiveFeed {
  const listeners = new Set<(topics: readonly PulseTopic[]) => void>();
  let generation = 0;
  let poller: { readonly first: Promise<void>; readonly stop: AbortController } | null = null;

  async function poll(stop: AbortSignal, onFirst: () => void): Promise<void> {
    let seen: Pulse | null = null;
    let away = false;
    while (!stop.aborted) {
      try {
        const pulse = await parts.panel.loadPulse();
        const before = seen;
        seen = pulse;
        // After an outage everything may have changed.
        const changed = before === null ? [] : PULSE_TOPICS.filter((topic) => away || before[topic] !== pulse[topic]);
        away = false;
        if (changed.length > 0) {
          generation += 1;
          for (const listener of [...listeners]) listener(changed);
        }
      } catch (error) {
        if (!away) parts.logger.warn("the panel cannot see changes", { error: describeError(error) });
        away = true;
      }
      onFirst();
      await parts.clock.sleep(POLL_MS, stop);
    }
  }

  function start(): NonNullable<typeof poller> {
    generation += 1;
    const stop = new AbortController();
    const first = new Promise<void>((resolve) => void poll(stop.signal, resolve));
    return { first, stop };
  }

  return {
    subscribe(listener) {
      listeners.add(listener);
      poller ??= start();
      const { first } = poller;
      return {
        ready: first,
        stop() {
          listeners.delete(listener);
          if (listeners.size > 0) return;
          poller?.stop.abort();
          poller = null;
        },
      };
    },
    generation: () => generation,
  };
}
