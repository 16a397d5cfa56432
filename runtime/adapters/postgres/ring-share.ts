/** A ring may be sent with a commit again after this many times what the last one took. */
const REST_PER_RING = 3;

/**
 * Which inserts ring with their own commit. The worker hears of such a job a round trip sooner, but all commits of a database
 * that ring stand in one line, held through the write to disk. So at most a quarter of the time goes into them: in a
 * stream of single jobs nearly each one rings, under load or where others ring too, and each takes longer, hardly any.
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
