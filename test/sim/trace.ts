/** One line of what happened. */
export interface TraceEntry {
  readonly atMs: number;
  readonly who: string;
  readonly call: string;
  readonly result: string;
}

/** Every event goes into the hash; the lines are kept only where somebody wants to read them. */
export class Trace {
  readonly entries: TraceEntry[] | null;
  #low = 0x811c9dc5;
  #high = 0x01000193;

  constructor(keep: boolean) {
    this.entries = keep ? [] : null;
  }

  note(atMs: number, who: string, call: string, result: string): void {
    this.mix(atMs * 1000);
    this.#text(who);
    this.#text(call);
    this.#text(result);
    this.entries?.push({ atMs, who, call, result });
  }

  mix(value: number): void {
    this.#low = Math.imul(this.#low ^ (value | 0), 0x01000193);
    this.#high = Math.imul(this.#high ^ this.#low, 0x85ebca6b) + 1;
  }

  get hash(): string {
    return [this.#high, this.#low].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
  }

  #text(text: string): void {
    let low = this.#low;
    for (let index = 0; index < text.length; index++) low = Math.imul(low ^ text.charCodeAt(index), 0x01000193);
    this.#low = low;
    this.mix(text.length);
  }
}
