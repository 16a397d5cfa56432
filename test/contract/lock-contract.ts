import { beforeEach, describe, expect, test } from "vitest";
import type { LockManager, LockOutcome } from "../../runtime/protocol/ports/transport.ts";
import { eventually } from "../support/up.ts";

/** A lock service, and what the suite needs beside the port. */
export interface LocksUnderTest {
  readonly nodes: number;
  /** A manager as one process has it; it is closed after the test by whoever made it. */
  connect(): LockManager;
  /** Takes so many of its nodes away; 0 brings all back. */
  takeAway(nodes: number): Promise<void>;
}

/** What every LockManager does. */
export function lockContract(name: string, make: () => Promise<LocksUnderTest>): void {
  describe(`locks: ${name}`, () => {
    let service: LocksUnderTest;
    let locks: LockManager;
    let others: LockManager;

    beforeEach(async () => {
      service = await make();
      locks = service.connect();
      others = service.connect();
    });

    test("a free resource is acquired, and is busy for others until it is released", async () => {
      const held = await acquire(locks, "job:1");
      expect((await others.acquire("job:1")).kind).toBe("busy");
      await held.release();
      expect((await others.acquire("job:1")).kind).toBe("acquired");
    });

    test("its own holder finds it busy too", async () => {
      await acquire(locks, "job:1");
      expect((await locks.acquire("job:1")).kind).toBe("busy");
    });

    test("resources do not touch one another", async () => {
      await acquire(locks, "job:1");
      expect((await others.acquire("job:2")).kind).toBe("acquired");
    });

    test("of many that try at once nobody gets what another has, and all others find it busy", async () => {
      const tries = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? locks : others).acquire("job:1"));
      const kinds = (await Promise.all(tries)).map(({ kind }) => kind);
      expect(kinds.filter((kind) => kind === "acquired").length).toBeLessThanOrEqual(1);
      expect(kinds.filter((kind) => kind === "unavailable")).toEqual([]);
    });

    test("a try that was busy keeps nothing of it: its holder's release frees it", async () => {
      const held = await acquire(locks, "job:1");
      await others.acquire("job:1");
      await held.release();
      expect((await locks.acquire("job:1")).kind).toBe("acquired");
    });

    test("a second release does not free what another has acquired since", async () => {
      const first = await acquire(locks, "job:1");
      await first.release();
      await acquire(others, "job:1");
      await first.release();
      expect((await locks.acquire("job:1")).kind).toBe("busy");
    });

    test("with all nodes away a try is unavailable, a release does not reject, and both work when they are back", async () => {
      const held = await acquire(locks, "job:1");
      await service.takeAway(service.nodes);
      expect((await locks.acquire("job:2")).kind).toBe("unavailable");
      await held.release();
      await eventually("no node answers", async () => locks.condition().answering === 0);
      expect(locks.condition().nodes).toBe(service.nodes);
      await service.takeAway(0);
      const again = await eventually("a lock is acquired again", async () => {
        const outcome = await locks.acquire("job:3");
        return outcome.kind === "acquired" && outcome;
      });
      await again.release();
      await eventually("all nodes answer", async () => locks.condition().answering === service.nodes);
    });

    test("a manager that is closed twice closes once", async () => {
      await locks.close();
      await expect(locks.close()).resolves.toBeUndefined();
    });
  });
}

/** Acquires what is known to be free. */
export async function acquire(
  locks: LockManager,
  resource: string,
): Promise<Extract<LockOutcome, { readonly kind: "acquired" }>> {
  const outcome = await locks.acquire(resource);
  if (outcome.kind !== "acquired") throw new Error(`expected to acquire ${resource}, found it ${outcome.kind}`);
  return outcome;
}
