/** What is claimed beyond the free slots is what they will start within this time. */
const HORIZON_MS = 100;
/** A claim asks for half of it: fewer and larger statements, and jobs at hand while one is under way. */
const MOST_AHEAD = 2_000;
/** Weight of a new run time when it is shorter than the average; a longer one counts more, so that caution comes first. */
const SHORTER_WEIGHT = 0.05;
const LONGER_WEIGHT = 0.3;
/** Below this a run time says more about the clock than about the job. */
const SHORTEST_MS = 0.02;

/** How long recent jobs of one queue ran, as a moving average. */
export class RunPace {
  #averageMs: number | null = null;

  record(ranMs: number): void {
    if (this.#averageMs === null) this.#averageMs = ranMs;
    else this.#averageMs += (ranMs - this.#averageMs) * (ranMs < this.#averageMs ? SHORTER_WEIGHT : LONGER_WEIGHT);
  }

  /** Claims had to be given back unstarted: what runs now is slower than the average says. */
  distrust(): void {
    this.#averageMs = Math.max(this.#averageMs ?? 0, 10 * HORIZON_MS);
  }

  /** Jobs to hold ready beyond the free slots; none before the first run was measured. */
  ahead(slots: number): number {
    if (this.#averageMs === null) return 0;
    return Math.min(MOST_AHEAD, Math.floor((slots * HORIZON_MS) / Math.max(this.#averageMs, SHORTEST_MS)));
  }
}
