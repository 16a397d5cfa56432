/** A map that forgets its oldest entries beyond `limit`; for values that can be computed again. */
export class BoundedCache<Key, Value> {
  readonly #entries = new Map<Key, Value>();
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The value kept for `key`, or the computed one, which is kept. */
  getOrCompute(key: Key, compute: () => Value): Value {
    const known = this.#entries.get(key);
    if (known !== undefined) return known;
    const value = compute();
    if (this.#entries.size >= this.#limit) {
      for (const oldest of this.#entries.keys()) {
        this.#entries.delete(oldest);
        break;
      }
    }
    this.#entries.set(key, value);
    return value;
  }

  get size(): number {
    return this.#entries.size;
  }
}
