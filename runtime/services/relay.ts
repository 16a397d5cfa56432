import type { OutboxStore, RelayVerdict } from "../protocol/ports/outbox.ts";
import type { Broker, BrokerMessage, PublishOutcome } from "../protocol/ports/transport.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface RelayOptions extends LoopSurroundings {
  readonly store: Pick<OutboxStore, "relayBatch">;
  readonly broker: Pick<Broker, "publish" | "condition">;
}

/** Carries the outbox to the broker; `wake()` when something was written to it. */
export type Relay = Loop;

/** Messages in one turn. */
const BATCH = 500;
/** The turn is a transaction of the database, which is ended when it does nothing for 30 s. */
const PUBLISH_BOUND_MS = 10_000;
const POLL_MS = 1_000;
/** Another process has the turn and may have looked before the message was there. */
const TURN_WAIT_MS = 100;
const FIRST_BACKOFF_MS = 250;
const LONGEST_BACKOFF_MS = 5_000;
/** A queue that the broker does not have is told of this often. */
const TELL_UNROUTABLE_MS = 60_000;

/**
 * Publishes what the outbox holds, oldest first, and removes what the broker has confirmed. Every process may do it, one at a time.
 * A crash between confirmation and removal publishes again, and the claim absorbs that.
 */
export function startRelay({ store, broker, clock, random, observer }: RelayOptions): Relay {
  const told = new Map<string, number>();
  let limit = BATCH;
  let failures = 0;
  /** There is news that no turn of this process has begun after. */
  let wanted = false;
  /** Another process had the turn at the last try. */
  let isBehindAnother = false;

  const loop = startLoop({
    name: "relay",
    clock,
    random,
    observer,
    cycle: async (signal) => {
      // Everybody hears of news: those who were too late the last time do not press.
      if (isBehindAnother && wanted) await clock.sleep(TURN_WAIT_MS * (0.5 + random.next()), signal);
      while (!signal.aborted) {
        const wasWanted = wanted;
        wanted = false;
        let uncertain = 0;
        const batch = await store.relayBatch(limit, async (messages) => {
          const outcomes = await publishWithin(messages);
          uncertain = outcomes.filter((outcome) => outcome === "unknown").length;
          tellUnroutable(messages.filter((_, index) => outcomes[index] === "unroutable"));
          // What fails alone, on a connection that works, is not for this broker.
          const isSuspect = messages.length === 1 && broker.condition().state === "connected";
          return outcomes.map((outcome) => judge(outcome, isSuspect));
        });
        isBehindAnother = batch === null;
        if (batch === null) {
          wanted ||= wasWanted;
          return wanted ? 0 : POLL_MS * (0.5 + random.next() / 2);
        }
        if (batch.taken === 0) return POLL_MS;
        observer.observe({ kind: "relayed", ...batch });
        if (uncertain > 0) return backOff(uncertain);
        if (failures > 0) observer.observe({ kind: "publishing-again" });
        failures = 0;
        limit = Math.min(BATCH, limit * 2);
      }
      return POLL_MS;
    },
  });

  return {
    wake() {
      wanted = true;
      loop.wake();
    },
    stop: loop.stop,
  };

  /** What is not confirmed in time may have arrived or not. */
  async function publishWithin(messages: readonly BrokerMessage[]): Promise<readonly PublishOutcome[]> {
    const answered = new AbortController();
    let outcomes: readonly PublishOutcome[] = [];
    void broker
      .publish(messages)
      .then((answer) => {
        outcomes = answer;
      })
      .catch(() => undefined)
      .finally(() => answered.abort());
    await clock.sleep(PUBLISH_BOUND_MS, answered.signal);
    return messages.map((_, index) => outcomes[index] ?? "unknown");
  }

  /** Nothing is known of these: they stay first. Fewer at a time where the connection works, until one that the broker cannot take stands alone. */
  function backOff(uncertain: number): number {
    if (failures === 0) observer.observe({ kind: "publishing-fails", messages: uncertain });
    failures += 1;
    if (broker.condition().state === "connected") limit = Math.max(1, limit >> 1);
    const backoffMs = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.min(failures - 1, 10));
    return backoffMs * (0.5 + random.next() / 2);
  }

  function tellUnroutable(messages: readonly BrokerMessage[]): void {
    const counts = new Map<string, number>();
    for (const message of messages) {
      const queue = message.kind === "dead-letter" ? "(dead letters)" : message.queue;
      counts.set(queue, (counts.get(queue) ?? 0) + 1);
    }
    const nowMs = clock.monotonicMs();
    for (const [queue, count] of counts) {
      if (nowMs - (told.get(queue) ?? Number.NEGATIVE_INFINITY) < TELL_UNROUTABLE_MS) continue;
      told.set(queue, nowMs);
      const hint = "start a worker that takes this queue, it declares it in the broker";
      observer.observe({ kind: "unroutable", queue, messages: count, hint });
    }
  }
}

function judge(outcome: PublishOutcome, isSuspect: boolean): RelayVerdict {
  if (outcome === "confirmed") return "remove";
  return outcome === "unroutable" || isSuspect ? "put-off" : "keep";
}
