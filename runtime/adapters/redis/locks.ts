import Redlock, { ExecutionError, type ExecutionStats, type Lock, ResourceLockedError } from "redlock";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { LockManager, LockOutcome } from "../../protocol/ports/transport.ts";
import { LATE, withDeadline } from "./deadline.ts";
import { type LockNode, openLockNode } from "./lock-node.ts";
import { parseNodeAddresses } from "./node-address.ts";
import { EXTEND_SCRIPT, RELEASE_SCRIPT } from "./scripts.ts";

export interface RedisLockOptions {
  /** 1, 3 or 5 independent nodes: redis:// or rediss://, with credentials where they are needed. */
  readonly urls: readonly string[];
  readonly prefix: string;
  /** Keeps two installations apart that share a Redis. */
  readonly installation: string;
  /** How long a lock lives that nobody extends. */
  readonly expiryMs: number;
  /** Deadline of one try; 300 by default. */
  readonly tryMs?: number;
  /** Text of the certificate of an authority that Node does not know, for rediss://. */
  readonly ca?: string;
  readonly logger: Logger;
  readonly monotonicMs?: () => number;
}

const TRY_MS = 300;
const PROBE_MS = 1_000;
/** Clocks of nodes may run this much apart within one expiry, and round to whole milliseconds (Redlock's own numbers). */
const DRIFT = { factor: 0.01, roundingMs: 2 };
/** Thousands of locks are extended in slices, so that a try in between does not wait for all of them. */
const SLICE = 500;

const BUSY: LockOutcome = { kind: "busy" };
const UNAVAILABLE: LockOutcome = { kind: "unavailable" };

/** What is held now; the same object until it is released. */
interface HeldLock {
  readonly lock: Lock;
}

/**
 * Locks by Redlock (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/) on independent nodes: more than
 * half of them must agree. They save work and promise nothing, so nothing here ever fails: what does not come in time is
 * `unavailable`. Throws TURNO_CONFIG_SETTING for addresses that cannot be used.
 */
export function openRedisLocks({
  urls,
  prefix,
  installation,
  expiryMs,
  tryMs = TRY_MS,
  ca,
  logger,
  monotonicMs = () => performance.now(),
}: RedisLockOptions): LockManager {
  const keyOf = (name: string) => `${prefix}:${installation}:${name}`;
  const nodes = parseNodeAddresses(urls).map((address) =>
    // Nodes give up before the try does, so that the others' votes still count.
    openLockNode({
      address,
      ca: ca ?? null,
      probeKey: keyOf("probe"),
      commandMs: Math.ceil(tryMs * 0.7),
      monotonicMs,
      logger,
    }),
  );
  const redlock = new Redlock(
    nodes,
    { retryCount: 0, driftFactor: DRIFT.factor },
    // Given as texts it ignores them.
    { extendScript: () => EXTEND_SCRIPT, releaseScript: () => RELEASE_SCRIPT },
  );
  const held = new Set<HeldLock>();
  let isClosed = false;
  let isExtending = false;

  /** Only its own value is deleted. Never rejects; what no node heard of expires by itself. */
  async function giveBack(lock: Lock): Promise<void> {
    await withDeadline(redlock.release(lock), tryMs).catch(() => {});
  }

  async function release(entry: HeldLock): Promise<void> {
    if (held.delete(entry)) await giveBack(entry.lock);
  }

  async function extend(entry: HeldLock): Promise<void> {
    if (!held.has(entry)) return;
    // The library asks the wall clock whether it is still worth it; whether it is, the nodes know.
    entry.lock.expiration = Number.POSITIVE_INFINITY;
    await redlock.extend(entry.lock, expiryMs).catch(() => {});
    // Released meanwhile: the extension may have come last and made it anew.
    if (!held.has(entry)) await giveBack(entry.lock);
  }

  async function extendAll(): Promise<void> {
    if (isExtending) return;
    isExtending = true;
    const entries = [...held];
    for (let from = 0; from < entries.length; from += SLICE) {
      await Promise.all(entries.slice(from, from + SLICE).map(extend));
    }
    isExtending = false;
  }

  const extender = setInterval(() => void extendAll(), Math.ceil(expiryMs / 3)).unref();
  const prober = setInterval(() => {
    for (const node of nodes) node.probe();
  }, PROBE_MS).unref();

  return {
    async acquire(resource) {
      if (isClosed) return UNAVAILABLE;
      const startedAt = monotonicMs();
      const attempt = redlock.acquire([keyOf(resource)], expiryMs);
      try {
        const lock = await withDeadline(attempt, tryMs);
        if (lock === LATE) {
          void attempt.then(giveBack, () => {});
          return UNAVAILABLE;
        }
        const validMs = expiryMs - (monotonicMs() - startedAt) - expiryMs * DRIFT.factor - DRIFT.roundingMs;
        // It must last until it is extended, or another gets it while this one still works.
        if (validMs < expiryMs / 2 || isClosed) {
          void giveBack(lock);
          return UNAVAILABLE;
        }
        const entry: HeldLock = { lock };
        held.add(entry);
        return { kind: "acquired", release: () => release(entry) };
      } catch (error) {
        if (error instanceof ExecutionError) return await judge(error);
        logger.error("a lock could not be tried", { error: describeError(error) });
        return UNAVAILABLE;
      }
    },
    condition: () => ({ nodes: nodes.length, answering: countAnswering(nodes) }),
    async close() {
      if (isClosed) return;
      isClosed = true;
      clearInterval(extender);
      clearInterval(prober);
      await Promise.all([...held].map(release));
      for (const node of nodes) node.close();
    },
  };
}

function countAnswering(nodes: readonly LockNode[]): number {
  return nodes.filter((node) => node.answers()).length;
}

/** Busy only where more than half of the nodes could be asked: too few answers say nothing about others. */
async function judge({ attempts: [attempt] }: ExecutionError): Promise<LockOutcome> {
  const stats = await attempt;
  return stats !== undefined && countAnswers(stats) >= stats.quorumSize ? BUSY : UNAVAILABLE;
}

function countAnswers({ votesFor, votesAgainst }: ExecutionStats): number {
  return votesFor.size + [...votesAgainst.values()].filter((error) => error instanceof ResourceLockedError).length;
}
