import type { DispatchToken, JobId } from "../core/ids.ts";
import type { LeaseObservation } from "../protocol/ports/leases.ts";

interface Sighting {
  readonly jobId: JobId;
  readonly leaseCounter: number;
  readonly sinceMs: number;
}

/**
 * Tells which executions make no progress, by looking at (job, token, counter) again and again. Only this process's
 * monotonic clock is used, and only while every look in between succeeded in time: an outage of the database, a pause
 * of this process or a jump of a wall clock makes nothing look dead (reliability F19–F22).
 */
export class LeaseWatch {
  readonly #leaseMs: number;
  readonly #longestGapMs: number;
  #sightings = new Map<DispatchToken, Sighting>();
  #lastLookMs: number | null = null;

  constructor(options: { readonly leaseMs: number; readonly intervalMs: number }) {
    this.#leaseMs = options.leaseMs;
    this.#longestGapMs = options.intervalMs * 2.5;
  }

  /** A look failed: nothing that was seen before counts any more. */
  forget(): void {
    this.#sightings.clear();
    this.#lastLookMs = null;
  }

  /** Takes in one look, asked at one instant and answered at another; gives those unchanged for a whole lease. */
  look(
    seen: readonly LeaseObservation[],
    at: { readonly askedMs: number; readonly answeredMs: number },
  ): readonly LeaseObservation[] {
    const lastLookMs = this.#lastLookMs ?? at.askedMs;
    // An answer that was long under way hides a gap as well: this process was paused, or the database did not answer.
    if (Math.max(at.askedMs - lastLookMs, at.answeredMs - at.askedMs) > this.#longestGapMs) this.forget();
    this.#lastLookMs = at.answeredMs;
    const sightings = new Map<DispatchToken, Sighting>();
    const suspects: LeaseObservation[] = [];
    for (const lease of seen) {
      const before = this.#sightings.get(lease.token);
      const unchanged =
        before !== undefined && before.jobId === lease.jobId && before.leaseCounter === lease.leaseCounter;
      // The first sight counts from its answer, the last from its question: never longer than it was.
      sightings.set(lease.token, unchanged ? before : { ...lease, sinceMs: at.answeredMs });
      if (unchanged && at.askedMs - before.sinceMs >= this.#leaseMs) suspects.push(lease);
    }
    this.#sightings = sightings;
    return suspects;
  }
}
