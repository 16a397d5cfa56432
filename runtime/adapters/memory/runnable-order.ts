/** What the order looks at in a row. */
interface Runnable {
  readonly id: string;
  readonly state: string;
  readonly sortAtMs: number;
  readonly token: bigint | null;
}

interface Entry<Row extends Runnable> {
  readonly sortAtMs: number;
  readonly row: Row;
  /** The entry is dead when the row has another token by now. */
  readonly token: bigint | null;
}

/** The runnable jobs of one queue by (sort position, id); entries of jobs that have left stay until they are passed. */
export class RunnableOrder<Row extends Runnable> {
  #entries: Entry<Row>[] = [];
  /** Everything before is dead. */
  #head = 0;

  add(row: Row): void {
    const entry: Entry<Row> = { sortAtMs: row.sortAtMs, row, token: row.token };
    const last = this.#entries.at(-1);
    if (last === undefined || isBefore(last, entry.sortAtMs, row.id)) {
      this.#entries.push(entry);
      return;
    }
    const index = this.#find(entry.sortAtMs, row.id);
    this.#entries.splice(index, 0, entry);
    this.#head = Math.min(this.#head, index);
  }

  /** The first live rows after a position. */
  take(options: {
    readonly after: { readonly sortAtMs: number; readonly id: string } | null;
    readonly limit: number;
    readonly wanted: (row: Row) => boolean;
  }): Row[] {
    this.#dropDead();
    const taken: Row[] = [];
    const from = options.after === null ? this.#head : this.#find(options.after.sortAtMs, `${options.after.id}~`);
    for (let index = from; index < this.#entries.length && taken.length < options.limit; index++) {
      const entry = this.#entries[index];
      if (entry !== undefined && isLive(entry) && options.wanted(entry.row)) taken.push(entry.row);
    }
    return taken;
  }

  #dropDead(): void {
    for (
      let entry = this.#entries[this.#head];
      entry !== undefined && !isLive(entry);
      entry = this.#entries[this.#head]
    ) {
      this.#head += 1;
    }
    if (this.#head < 1024 || this.#head * 2 < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#head);
    this.#head = 0;
  }

  #find(sortAtMs: number, id: string): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const entry = this.#entries[middle];
      if (entry !== undefined && isBefore(entry, sortAtMs, id)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function isBefore(entry: Entry<Runnable>, sortAtMs: number, id: string): boolean {
  return entry.sortAtMs === sortAtMs ? entry.row.id < id : entry.sortAtMs < sortAtMs;
}

function isLive({ row, token }: Entry<Runnable>): boolean {
  return row.state === "Enqueued" && row.token === token;
}
