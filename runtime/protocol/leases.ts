import { describeError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Execution } from "./execution.ts";
import type { LeaseStore, Renewal } from "./ports/leases.ts";
import type { Clock, Observer } from "./ports/surroundings.ts";

export interface LeaseSettings {
  /** How long others leave an execution alone after its last renewal. */
  readonly leaseMs: number;
  readonly renewalMs: number;
}

/** A renewal without an answer after this long counts as failed. */
const RENEWAL_BOUND_MS = 3_000;
/** Wait after a failed or incomplete renewal. */
const RETRY_MS = 1_000;

/**
 * What this worker owns. Leases are renewed by explicit pairs, so a claim whose reply was lost is never kept alive by
 * accident (reliability F27). The own deadline counts from before the last successful renewal was sent, so it always
 * comes before anybody else may take the job.
 */
export class Leases {
  readonly #held = new Set<Execution>();
  readonly #store: Pick<LeaseStore, "renewLeases">;
  readonly #workerId: WorkerId;
  readonly #clock: Clock;
  readonly #observer: Observer;
  readonly #settings: LeaseSettings;
  readonly #onDropped: (execution: Execution) => void;
  readonly #leftMs: number;
  readonly #deadlineMs: number;
  #inFlightSinceMs: number | null = null;
  #failing = false;
  #nextRenewalMs: number;

  constructor(options: {
    readonly store: Pick<LeaseStore, "renewLeases">;
    readonly workerId: WorkerId;
    readonly clock: Clock;
    readonly observer: Observer;
    readonly settings: LeaseSettings;
    /** An execution was lost before it started; one that runs ends by itself. */
    readonly onDropped: (execution: Execution) => void;
  }) {
    this.#store = options.store;
    this.#workerId = options.workerId;
    this.#clock = options.clock;
    this.#observer = options.observer;
    this.#settings = options.settings;
    this.#onDropped = options.onDropped;
    // A tenth of the lease, at most 3 s, is left for the handler to hear of it.
    this.#leftMs = Math.min(3_000, options.settings.leaseMs / 10);
    this.#deadlineMs = options.settings.leaseMs - this.#leftMs;
    this.#nextRenewalMs = options.clock.monotonicMs() + options.settings.renewalMs;
  }

  hold(execution: Execution): void {
    this.#held.add(execution);
  }

  release(execution: Execution): void {
    execution.phase = "over";
    this.#held.delete(execution);
  }

  held(): ReadonlySet<Execution> {
    return this.#held;
  }

  /** Nobody else can own it yet; a handler is started only then. */
  isCertain(execution: Execution, nowMs: number): boolean {
    return nowMs - execution.confirmedMs < this.#deadlineMs;
  }

  /**
   * When a handler in a process of its own has to be gone, also if this process is frozen by then. Half of what is left
   * after the own deadline is for its abort to be obeyed, the other half for its end to be over.
   */
  keepUntilMs(execution: Execution): number {
    return execution.confirmedMs + this.#deadlineMs + this.#leftMs / 2;
  }

  /** The database did not answer the last renewal, and something is owned. */
  get failing(): boolean {
    return this.#failing;
  }

  /** Asks the database at the next tick, for a cancel request that was announced. */
  renewSoon(): void {
    this.#nextRenewalMs = this.#clock.monotonicMs();
  }

  /**
   * Called every second or sooner by the worker's sweep. Starts a renewal when one is due and none is in flight, and
   * gives up what may belong to others by now. Returns the renewal it started, for who wants to wait for it.
   */
  tick(): Promise<void> | null {
    const nowMs = this.#clock.monotonicMs();
    if (this.#inFlightSinceMs !== null && nowMs - this.#inFlightSinceMs >= RENEWAL_BOUND_MS) {
      this.#fail(`no answer after ${RENEWAL_BOUND_MS} ms`);
    }
    this.#doubtOverdue(nowMs);
    if (this.#inFlightSinceMs !== null || nowMs < this.#nextRenewalMs) return null;
    this.#nextRenewalMs = nowMs + this.#settings.renewalMs;
    if (this.#held.size === 0) {
      // Nothing is owned, so nothing is in danger.
      this.#failing = false;
      return null;
    }
    this.#inFlightSinceMs = nowMs;
    return this.#renew([...this.#held], nowMs);
  }

  async #renew(asked: readonly Execution[], sentMs: number): Promise<void> {
    try {
      const renewal = await this.#store.renewLeases(
        this.#workerId,
        asked.map(({ jobId, token, startedMs }) => ({
          jobId,
          token,
          runningMs: startedMs === null ? null : sentMs - startedMs,
        })),
      );
      this.#apply(renewal, asked, sentMs);
      if (this.#failing) this.#observer.observe({ kind: "leases-renewed", held: this.#held.size });
      this.#failing = false;
    } catch (error) {
      // Perhaps applied, perhaps not: nothing is known, so nothing is extended.
      this.#fail(describeError(error));
      this.#nextRenewalMs = Math.min(this.#nextRenewalMs, this.#clock.monotonicMs() + RETRY_MS);
    } finally {
      this.#inFlightSinceMs = null;
    }
  }

  #fail(message: string): void {
    if (!this.#failing) this.#observer.observe({ kind: "leases-failing", held: this.#held.size, message });
    this.#failing = true;
  }

  #apply(renewal: Renewal, asked: readonly Execution[], sentMs: number): void {
    const byToken = new Map(asked.map((execution) => [execution.token, execution]));
    const nowMs = this.#clock.monotonicMs();
    for (const { token, cancelRequested } of renewal.renewed) {
      const execution = byToken.get(token);
      if (execution === undefined) continue;
      execution.confirmedMs = sentMs;
      execution.run?.keepUntil?.(this.keepUntilMs(execution));
      if (execution.startedMs !== null) execution.startWritten = true;
      if (cancelRequested) execution.abort("cancelled", nowMs);
    }
    for (const { token } of renewal.lost) {
      const execution = byToken.get(token);
      if (execution !== undefined) this.#lose(execution, nowMs);
    }
    if (renewal.skipped.length > 0) this.#nextRenewalMs = Math.min(this.#nextRenewalMs, nowMs + RETRY_MS);
  }

  /** Somebody else owns it. What runs is aborted; its result is still offered, and the fence refuses it. */
  #lose(execution: Execution, nowMs: number): void {
    const over = execution.phase === "over";
    this.#held.delete(execution);
    // Its own final write, return or cancel landed between the question and the answer.
    if (over || execution.phase === "finishing") return;
    if (execution.phase === "waiting") {
      execution.phase = "over";
      this.#onDropped(execution);
    } else execution.abort("lease-lost", nowMs);
    this.#observer.observe({ kind: "lease-lost", jobId: execution.jobId, type: execution.job.type });
  }

  #doubtOverdue(nowMs: number): void {
    for (const execution of this.#held) {
      const sinceMs = nowMs - execution.confirmedMs;
      if (sinceMs < this.#deadlineMs || execution.phase !== "running") continue;
      if (!execution.abort("lease-doubtful", nowMs)) continue;
      this.#observer.observe({ kind: "lease-doubtful", jobId: execution.jobId, type: execution.job.type, sinceMs });
    }
  }
}
