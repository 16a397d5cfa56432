/** After a ring comes a rest of this many times what it took. */
const REST_PER_RING = 1;

/**
 * Which inserts ring with their own commit. The worker hears of such a job a round trip sooner, but all commits of a database
 * that ring stand in one line, held through the write to disk. So one insert at a time rings, for at most half of
 * the time: in a stream of single jobs each one does; under load, or where others ring too and each takes longer, few do.
 */
export class RingShare {
  #underWay = false;
  #restUntilMs = Number.NEGATIVE_INFINITY;

  /** True: this insert rings, and `end` is to follow. Monotonic milliseconds. */
  begin(nowMs: number): boolean {
    if (this.#underWay || nowMs < this.#restUntilMs) return false;
    this.#underWay = true;
    this.#restUntilMs = nowMs;
    return true;
  }

  end(nowMs: number): void {
    const tookMs = nowMs - this.#restUntilMs;
    this.#underWay = false;
    this.#restUntilMs = nowMs + REST_PER_RING * tookMs;
  }
}
