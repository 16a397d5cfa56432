/** Calls that were under way when something ended may take so long to fail. */
const AFTERMATH_MS = 11_000;

interface Trouble {
  readonly fromMs: number;
  readonly untilMs: number;
  /** Of the process and not of its place: a restart ends it. */
  readonly isOfProcess: boolean;
  /** It keeps the slot from looking at the leases. */
  readonly isBlind: boolean;
}

/** What was wrong with each slot, and until when: what a healthy process may expect is judged by it. */
export class Health {
  /** Longer than this without a look at the leases counts as not having looked. */
  readonly #blindMs: number;
  readonly #troubles: Trouble[][];

  constructor(options: { readonly slots: number; readonly blindMs: number }) {
    this.#blindMs = options.blindMs;
    this.#troubles = Array.from({ length: options.slots }, () => []);
  }

  /** Something is wrong with a slot (null: with all) for a while. */
  trouble(slot: number | null, trouble: Trouble): void {
    for (const [each, troubles] of this.#troubles.entries()) {
      if (slot === null || slot === each) troubles.push(trouble);
    }
  }

  /** Another process has the slot now. */
  restarted(slot: number): void {
    this.#troubles[slot] = (this.#troubles[slot] ?? []).filter(({ isOfProcess }) => !isOfProcess);
  }

  heal(nowMs: number): void {
    for (const troubles of this.#troubles) {
      for (const [index, trouble] of troubles.entries())
        troubles[index] = { ...trouble, untilMs: Math.min(trouble.untilMs, nowMs) };
    }
  }

  /** Nothing was wrong with it since, aftermaths included; in the future while something is. */
  wellSinceMs(slot: number): number {
    let sinceMs = 0;
    for (const { untilMs } of this.#troubles[slot] ?? []) sinceMs = Math.max(sinceMs, untilMs + AFTERMATH_MS);
    return sinceMs;
  }

  /** It has been able to look at leases without a long gap since. */
  seesSinceMs(slot: number): number {
    let sinceMs = 0;
    for (const { fromMs, untilMs, isBlind } of this.#troubles[slot] ?? [])
      if (isBlind && untilMs - fromMs > this.#blindMs) sinceMs = Math.max(sinceMs, untilMs);
    return sinceMs;
  }
}
