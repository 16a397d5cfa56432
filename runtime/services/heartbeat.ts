import type { HandlerHost } from "../protocol/ports/handlers.ts";
import type { WorkerCondition, WorkerInfo, WorkerStore } from "../protocol/ports/workers.ts";
import type { ClockSkew } from "./clock-skew.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";

export interface HeartbeatOptions extends LoopSurroundings {
  readonly store: Pick<WorkerStore, "heartbeat">;
  readonly worker: WorkerInfo;
  readonly host: Pick<HandlerHost, "unloadableBundles">;
  readonly condition: () => Omit<WorkerCondition, "clockSkewMs">;
  /** Measured with each heartbeat, told with the next. */
  readonly skew: ClockSkew;
  readonly intervalMs: number;
}

export interface Heartbeat extends Loop {
  /** The worker takes no more jobs; said at once. */
  drain(): void;
  /** The last heartbeat landed, and the worker is not on its way out. */
  isHeard(): boolean;
}

/** Shows others that this worker is there, and what it cannot run. No lease depends on it. */
export function startHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { store, worker, host, condition, skew, intervalMs } = options;
  let draining = false;
  let heard = false;
  const loop = startLoop({
    ...options,
    name: "heartbeat",
    cycle: async () => {
      const told = { ...condition(), clockSkewMs: skew.ms };
      const beat = { worker, draining, unloadableBundles: host.unloadableBundles(), condition: told };
      heard = await skew
        .measure(() => store.heartbeat(beat))
        .then(
          () => true,
          (error: unknown) => {
            heard = false;
            throw error;
          },
        );
      return intervalMs;
    },
  });
  return {
    ...loop,
    drain() {
      draining = true;
      loop.wake();
    },
    isHeard: () => heard && !draining,
  };
}
