import type { WorkerId } from "../core/ids.ts";
import { UnknownOutcomeError } from "../protocol/ports/errors.ts";
import type { ExecutionStore, Ownership } from "../protocol/ports/jobs.ts";
import type { DatabaseWatch } from "./database-watch.ts";

export interface ClaimDoubtOptions {
  readonly store: Pick<ExecutionStore, "findOwned" | "returnClaims">;
  readonly workerId: WorkerId;
  /** Everything this worker knows to own. */
  readonly known: () => readonly Ownership[];
  readonly watch: DatabaseWatch;
  /** Claims may begin again. */
  readonly onClear: () => void;
}

/** The claims of a worker that are under way, whatever brings them, and what keeps new ones from beginning. */
export class ClaimDoubt {
  readonly #options: ClaimDoubtOptions;
  #underWay = 0;
  /** A claim failed: the next poll tries again. */
  #away = false;
  /** A claim's outcome is unknown: nothing is claimed until what it may have brought is given back. */
  #doubt = false;
  #clearing = false;
  #whenStill: (() => void)[] = [];

  constructor(options: ClaimDoubtOptions) {
    this.#options = options;
  }

  /** No claim may begin. */
  get blocked(): boolean {
    return this.#away || this.#doubt;
  }

  began(): void {
    this.#underWay += 1;
  }

  /** After what it brought is known to own. */
  ended(): void {
    this.#underWay -= 1;
    if (this.#underWay === 0) for (const resolve of this.#whenStill.splice(0)) resolve();
  }

  succeeded(): void {
    this.#options.watch.succeeded();
  }

  /** Before `ended`. */
  failed(error: unknown): void {
    this.#options.watch.failed(error);
    this.#away = true;
    if (error instanceof UnknownOutcomeError) this.#doubt = true;
  }

  /** Once a second: claims may be tried again, after what is in doubt has been cleared. */
  retry(): void {
    this.#away = false;
    if (this.#doubt) void this.#clear();
  }

  /** Resolves when no claim is under way. */
  still(): Promise<void> {
    if (this.#underWay === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenStill.push(resolve));
  }

  /**
   * A claim that committed without our hearing of it left rows that nobody works on. Once no other claim is under way
   * the database says which, and they go back; they are never run on the strength of a guess (reliability F9, F27).
   */
  async #clear(): Promise<void> {
    const { store, workerId, known, watch, onClear } = this.#options;
    // One at a time: a second look could take the next claims, just under way, for strays.
    if (this.#clearing) return;
    this.#clearing = true;
    await this.still();
    this.#underWay += 1;
    try {
      const strays = await store.findOwned({ workerId, known: known() });
      if (strays.length > 0) await store.returnClaims(workerId, strays);
      this.#doubt = false;
      watch.succeeded();
    } catch (error) {
      watch.failed(error);
    }
    this.#clearing = false;
    this.ended();
    onClear();
  }
}
