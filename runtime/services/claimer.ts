import type { WorkerId } from "../core/ids.ts";
import type { ClaimedJob, ExecutionStore } from "../protocol/ports/jobs.ts";
import type { Clock } from "../protocol/ports/surroundings.ts";
import type { ClaimDoubt } from "./claim-doubt.ts";
import type { Supply } from "./supply.ts";
import type { WorkQueue } from "./work-queue.ts";

export interface ClaimerOptions {
  readonly store: Pick<ExecutionStore, "claimJobs" | "claimRecovered">;
  readonly workerId: WorkerId;
  readonly queues: readonly WorkQueue[];
  readonly clock: Clock;
  readonly claims: ClaimDoubt;
  readonly exceptTypes: () => readonly string[];
  readonly onClaimed: (queue: WorkQueue, jobs: readonly ClaimedJob[], sentMs: number) => void;
  /** A claim has to come later: the worker's sweep calls `pump` then. */
  readonly onWaiting: () => void;
}

/** Two claims at once overlap with the finishes of what they brought; more only fight for the same rows. */
const MOST_LANES = 2;
/** Retries and higher priorities land before the cursor. */
const RESCAN_MS = 100;
const RECOVERED_POLL_MS = 2_000;
const RECOVERED_RING_MS = 500;

/** Supplies from the database, in the queues' order: natural pace, at most two claims under way, no pressing while it is away. */
export class Claimer implements Supply {
  readonly #options: ClaimerOptions;
  #lanes = 0;
  #stopped = false;
  #turn = 0;

  constructor(options: ClaimerOptions) {
    this.#options = options;
  }

  /** Claims whatever is wanted and allowed now. Cheap when that is nothing. */
  pump(): void {
    if (this.#stopped || this.#options.claims.blocked) return;
    const nowMs = this.#options.clock.monotonicMs();
    for (const queue of this.#options.queues) {
      if (queue.recoveredDueMs <= nowMs && queue.free > 0) void this.#claimRecovered(queue, nowMs);
    }
    while (this.#lanes < MOST_LANES) {
      const queue = this.#nextHungry(nowMs);
      if (queue === null) return;
      void this.#claim(queue, queue.wanted, nowMs);
    }
  }

  /** Once a second: looks again everywhere, and tries again after a failure. */
  poll(): void {
    for (const queue of this.#options.queues) {
      queue.wish();
      queue.recoveredDueMs = Math.min(queue.recoveredDueMs, queue.recoveredAskedMs + RECOVERED_POLL_MS);
    }
    this.#options.claims.retry();
    this.pump();
  }

  /** Something was put in this queue. */
  ring(queue: WorkQueue): void {
    queue.wish();
    queue.recoveredDueMs = Math.min(queue.recoveredDueMs, queue.recoveredAskedMs + RECOVERED_RING_MS);
    this.pump();
  }

  /** A final write landed; under a limit of the fleet there is room for another job now. */
  landed(queue: WorkQueue): void {
    if (queue.appetite !== "hungry" && queue.perhapsLimited) queue.wish();
    if (queue.appetite === "hungry") this.pump();
  }

  /** Claims no more; resolves when nothing is under way. */
  stop(): Promise<void> {
    this.#stopped = true;
    return this.#options.claims.still();
  }

  #nextHungry(nowMs: number): WorkQueue | null {
    const { queues } = this.#options;
    for (let step = 0; step < queues.length; step++) {
      const queue = queues[(this.#turn + step) % queues.length];
      if (queue === undefined || !queue.inTurn) continue;
      if (queue.appetite === "rescan" && nowMs >= queue.scannedFromStartMs + RESCAN_MS) queue.appetite = "hungry";
      if (queue.appetite !== "hungry" || queue.wanted === 0 || queue.isFull) continue;
      this.#turn = (this.#turn + step + 1) % queues.length;
      return queue;
    }
    return null;
  }

  async #claim(queue: WorkQueue, limit: number, sentMs: number): Promise<void> {
    const { store, workerId, exceptTypes, claims, onClaimed, onWaiting } = this.#options;
    const fromStart = queue.cursor === null || sentMs - queue.scannedFromStartMs >= RESCAN_MS;
    const { wishes } = queue;
    if (fromStart) queue.scannedFromStartMs = sentMs;
    this.#begin();
    queue.claiming += limit;
    let claimed: Awaited<ReturnType<ExecutionStore["claimJobs"]>> | null = null;
    try {
      const after = fromStart ? null : queue.cursor;
      claimed = await store.claimJobs({ workerId, queue: queue.name, limit, after, exceptTypes: exceptTypes() });
      claims.succeeded();
    } catch (error) {
      claims.failed(error);
    }
    queue.claiming -= limit;
    if (claimed !== null) {
      if (claimed.jobs.length > 0) {
        queue.cursor = claimed.cursor;
        onClaimed(queue, claimed.jobs, sentMs);
      }
      if (claimed.jobs.length < limit && queue.wishes === wishes) {
        queue.appetite = fromStart ? "idle" : "rescan";
        queue.perhapsLimited = queue.open > 0;
        if (!fromStart) onWaiting();
        else if (queue.byMessage && claimed.limited !== true) queue.inTurn = false;
      }
    }
    this.#end();
  }

  async #claimRecovered(queue: WorkQueue, sentMs: number): Promise<void> {
    const { store, workerId, exceptTypes, claims, onClaimed } = this.#options;
    queue.recoveredAskedMs = sentMs;
    queue.recoveredDueMs = Number.POSITIVE_INFINITY;
    queue.reserved += 1;
    this.#begin();
    let job: ClaimedJob | null = null;
    try {
      job = await store.claimRecovered({ workerId, queue: queue.name, exceptTypes: exceptTypes() });
      claims.succeeded();
    } catch (error) {
      claims.failed(error);
    }
    queue.reserved -= 1;
    // Where one was found there may be another.
    if (job !== null) queue.recoveredDueMs = sentMs;
    onClaimed(queue, job === null ? [] : [job], sentMs);
    this.#end();
  }

  #begin(): void {
    this.#lanes += 1;
    this.#options.claims.began();
  }

  #end(): void {
    this.#lanes -= 1;
    this.#options.claims.ended();
    this.pump();
  }
}
