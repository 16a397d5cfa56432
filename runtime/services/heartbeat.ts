import type { HandlerHost } from "../protocol/ports/handlers.ts";
import type { WorkerInfo, WorkerStore } from "../protocol/ports/workers.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface HeartbeatOptions extends LoopSurroundings {
  readonly store: Pick<WorkerStore, "heartbeat">;
  readonly worker: WorkerInfo;
  readonly host: Pick<HandlerHost, "unloadableBundles">;
  readonly intervalMs: number;
}

export interface Heartbeat extends Loop {
  /** The worker takes no more jobs; said at once. */
  drain(): void;
}

/** Shows others that this worker is there, and what it cannot run. No lease depends on it. */
export function startHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { store, worker, host, intervalMs } = options;
  let draining = false;
  const loop = startLoop({
    ...options,
    name: "heartbeat",
    cycle: async () => {
      await store.heartbeat({ worker, draining, unloadableBundles: host.unloadableBundles() });
      return intervalMs;
    },
  });
  return {
    ...loop,
    drain() {
      draining = true;
      loop.wake();
    },
  };
}
