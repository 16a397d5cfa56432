import type { Clock, Observer } from "../protocol/ports/surroundings.ts";

export interface ClockSkewOptions {
  readonly clock: Pick<Clock, "monotonicMs">;
  /** This process's wall clock, in milliseconds of the epoch; absent: nothing is measured. */
  readonly wallMs?: (() => number) | undefined;
  readonly limitMs: number;
  readonly observer: Observer;
}

/**
 * The database's clock less this process's own, measured with an exchange that tells the database's time (Cristian,
 * 1989): half of the round trip is what it may be off by. Nothing is decided by wall clocks, but ids, log lines and
 * handlers carry them: a process far off is not to lead.
 */
export class ClockSkew {
  readonly #options: ClockSkewOptions;
  #ms: number | null = null;
  #tooLarge = false;

  constructor(options: ClockSkewOptions) {
    this.#options = options;
  }

  /** Null: not measured yet. */
  get ms(): number | null {
    return this.#ms;
  }

  /** Certainly beyond the limit at the last measurement. */
  get tooLarge(): boolean {
    return this.#tooLarge;
  }

  async measure(ask: () => Promise<{ readonly databaseTime: Date }>): Promise<void> {
    const { clock, wallMs, limitMs, observer } = this.#options;
    const askedMs = clock.monotonicMs();
    const wallAskedMs = wallMs?.() ?? null;
    const { databaseTime } = await ask();
    if (wallAskedMs === null) return;
    const halfTripMs = (clock.monotonicMs() - askedMs) / 2;
    const skewMs = Math.round(databaseTime.getTime() - (wallAskedMs + halfTripMs));
    // An answer that took longer than the limit tells nothing about it.
    if (halfTripMs > limitMs) return;
    this.#ms = skewMs;
    const tooLarge = Math.abs(skewMs) - halfTripMs > limitMs;
    if (tooLarge !== this.#tooLarge) {
      observer.observe({ kind: tooLarge ? "clock-skewed" : "clock-agrees", skewMs, limitMs });
    }
    this.#tooLarge = tooLarge;
  }
}
