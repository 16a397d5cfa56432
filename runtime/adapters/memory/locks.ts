import type { LockManager } from "../../protocol/ports/transport.ts";

/** `locks.driver: none`: every lock is free, the database's fence alone decides. */
export const noLocks: LockManager = {
  acquire: () => Promise.resolve({ kind: "acquired", release: () => Promise.resolve() }),
  condition: () => ({ nodes: 0, answering: 0 }),
  close: () => Promise.resolve(),
};

/** Locks of one process; `away` plays a lock service that does not answer. */
export interface MemoryLocks extends LockManager {
  away: boolean;
  readonly held: ReadonlySet<string>;
}

export function createMemoryLocks(): MemoryLocks {
  const held = new Set<string>();
  return {
    away: false,
    held,
    acquire(resource) {
      if (this.away) return Promise.resolve({ kind: "unavailable" });
      if (held.has(resource)) return Promise.resolve({ kind: "busy" });
      held.add(resource);
      let isReleased = false;
      return Promise.resolve({
        kind: "acquired",
        release: () => {
          // By now the second release would free what another has acquired.
          if (!isReleased) held.delete(resource);
          isReleased = true;
          return Promise.resolve();
        },
      });
    },
    condition() {
      return { nodes: 1, answering: this.away ? 0 : 1 };
    },
    close: () => Promise.resolve(),
  };
}
