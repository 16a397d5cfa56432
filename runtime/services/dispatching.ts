import type { Installation, OutboxStore, Transport } from "../protocol/ports/outbox.ts";
import type { Broker, Doorbell } from "../protocol/ports/transport.ts";
import { type Relay, startRelay } from "./relay.ts";
import { type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface DispatchingOptions extends LoopSurroundings {
  readonly store: Pick<OutboxStore, "loadInstallation" | "relayBatch">;
  readonly doorbell: Pick<Doorbell, "listen">;
  /** What this process's settings say. */
  readonly transport: Transport;
  /** Null: the transport needs none. */
  readonly broker: Pick<Broker, "publish" | "condition"> | null;
  /** Whether the installation tells this process's broker of jobs; called at the start and with each change. */
  readonly onTold?: (isTold: boolean) => void;
}

export interface Dispatching {
  /** Something was written to the outbox. */
  wake(): void;
  /** What the installation's transport is by the last look; null: not known yet. */
  transport(): Transport | null;
  stop(): Promise<void>;
}

const LOOK_MS = 5_000;

/**
 * Follows the transport that the database records, and relays the outbox while it is this process's broker. A process
 * with other settings says so and goes on: the row is the truth, and claims by it are right on every transport.
 */
export function startDispatching(options: DispatchingOptions): Dispatching {
  const { store, doorbell, transport, broker, observer, onTold = () => {} } = options;
  let recorded: Transport | null = null;
  let relay: Relay | null = null;

  const follow = async (found: Installation["transport"]): Promise<void> => {
    if (found === recorded) return;
    const differed = recorded !== null && recorded !== transport;
    recorded = found;
    const isTold = broker !== null && found === transport;
    if (found !== transport) observer.observe({ kind: "transport-differs", configured: transport, recorded: found });
    else if (differed) observer.observe({ kind: "transport-agrees", transport });
    if (isTold) relay ??= startRelay({ ...options, broker });
    else {
      const stopping = relay;
      relay = null;
      await stopping?.stop();
    }
    onTold(isTold);
  };

  const loop = startLoop({
    ...options,
    name: "transport",
    cycle: async () => {
      await follow((await store.loadInstallation()).transport);
      return LOOK_MS;
    },
  });
  const listening = new AbortController();
  doorbell.listen(
    {
      onRing: (topic) => {
        if (topic.kind === "queue") relay?.wake();
      },
      onGap: () => relay?.wake(),
    },
    listening.signal,
  );
  return {
    wake: () => relay?.wake(),
    transport: () => recorded,
    async stop() {
      listening.abort();
      await loop.stop();
      await relay?.stop();
    },
  };
}
