const SHORTEST_MS = 50;

/**
 * How long a loop rests that works off what is due: until the next instant, at most `longestMs`. Where something
 * stays due that the loop cannot move on, it looks again at ever longer intervals.
 */
export class DueWait {
  readonly #longestMs: number;
  #fruitless = 0;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  after(round: { readonly moved: boolean; readonly dueInMs: number | null }): number {
    const { moved, dueInMs } = round;
    if (dueInMs === null) return this.#longestMs;
    this.#fruitless = moved || dueInMs > 0 ? 0 : Math.min(this.#fruitless + 1, 10);
    const waitMs = dueInMs > 0 ? dueInMs : (SHORTEST_MS / 2) * 2 ** this.#fruitless;
    return Math.max(SHORTEST_MS, Math.min(this.#longestMs, waitMs));
  }
}
