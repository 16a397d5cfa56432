import type { Doorbell, DoorbellTopic } from "../../protocol/ports/transport.ts";

/** Rings within one process. `muted` drops every ring, as a lost connection does; `gap` tells listeners of one. */
export interface MemoryDoorbell extends Doorbell {
  muted: boolean;
  gap(): void;
}

export function createMemoryDoorbell(): MemoryDoorbell {
  const listeners = new Set<Parameters<Doorbell["listen"]>[0]>();
  return {
    muted: false,
    ring(topic: DoorbellTopic) {
      if (this.muted) return;
      queueMicrotask(() => {
        for (const listener of listeners) listener.onRing(topic);
      });
    },
    gap() {
      for (const listener of listeners) listener.onGap();
    },
    listen(listener, signal) {
      if (signal.aborted) return;
      listeners.add(listener);
      signal.addEventListener("abort", () => listeners.delete(listener), { once: true });
    },
    close() {
      listeners.clear();
      return Promise.resolve();
    },
  };
}
