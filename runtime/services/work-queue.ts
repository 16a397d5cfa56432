import type { Execution } from "../protocol/execution.ts";
import type { ClaimCursor } from "../protocol/ports/jobs.ts";
import { RunPace } from "./claim-ahead.ts";

/**
 * Whether a claim is worth while. `rescan`: nothing after the cursor, a look from the start comes at its time.
 * `idle`: the queue had no more; a ring, the poll or a finish makes it hungry again.
 */
export type Appetite = "hungry" | "rescan" | "idle";

/** Claimed, running and waiting for their final write together; beyond it the database is what is slow. */
const MOST_OPEN = 4_000;

/** One queue as this worker works on it: slots, what is claimed and waits for one, and where claims go on. */
export class WorkQueue {
  readonly name: string;
  readonly slots: number;
  readonly pace = new RunPace();
  /** Handlers that run. */
  running = 0;
  /** Slots kept free for recovered jobs that are being asked for. */
  reserved = 0;
  /** Asked for in claims that are under way. */
  claiming = 0;
  /** Executions from claim to final write. */
  open = 0;
  appetite: Appetite = "hungry";
  /** A broker's messages bring its jobs. */
  byMessage = false;
  /** Its jobs are claimed in the database's order; with `byMessage`, as long as its limit or suspension asks for it. */
  inTurn = true;
  /** A claim came short while jobs of it were open here: the fleet's limit may be what stopped the claim. */
  perhapsLimited = false;
  /** Counts wishes to look again, so that one that comes during a claim is not lost. */
  wishes = 0;
  cursor: ClaimCursor | null = null;
  scannedFromStartMs = Number.NEGATIVE_INFINITY;
  recoveredAskedMs = Number.NEGATIVE_INFINITY;
  recoveredDueMs = Number.NEGATIVE_INFINITY;
  #ready: Execution[] = [];
  #head = 0;

  constructor(name: string, slots: number) {
    this.name = name;
    this.slots = slots;
  }

  get free(): number {
    return this.slots - this.running - this.reserved;
  }

  get waiting(): number {
    return this.#ready.length - this.#head;
  }

  /** How many jobs may be claimed and wait: what the free slots take, and what they will have started very soon. */
  get capacity(): number {
    return this.free + this.pace.ahead(this.slots);
  }

  /** Nothing more may be claimed before final writes have landed. */
  get isFull(): boolean {
    return this.open >= MOST_OPEN;
  }

  /** How much of the capacity nothing is claimed for yet. */
  get room(): number {
    return this.capacity - this.waiting - this.claiming;
  }

  /** How many to claim now; claims that would bring only a few are left for later while enough is at hand. */
  get wanted(): number {
    const target = this.capacity;
    const atHand = this.waiting + this.claiming;
    return atHand < this.free || atHand * 2 <= target ? Math.max(0, target - atHand) : 0;
  }

  makeReady(execution: Execution): void {
    this.#ready.push(execution);
  }

  /** The next one that still waits; leases may have been lost meanwhile. */
  takeReady(): Execution | null {
    const next = this.#peek();
    if (next !== null) this.#head += 1;
    return next;
  }

  /** Takes out what arrived up to an instant and has not started. */
  takeStale(untilMs: number): readonly Execution[] {
    const stale: Execution[] = [];
    for (let next = this.#peek(); next !== null && next.claimedMs <= untilMs; next = this.#peek()) {
      stale.push(next);
      this.#head += 1;
    }
    return stale;
  }

  /** Something may have come, wherever in the queue. */
  wish(): void {
    this.wishes += 1;
    this.appetite = "hungry";
  }

  #peek(): Execution | null {
    for (; this.#head < this.#ready.length; this.#head += 1) {
      const execution = this.#ready[this.#head];
      if (execution?.phase === "waiting") return execution;
    }
    this.#ready = [];
    this.#head = 0;
    return null;
  }
}
