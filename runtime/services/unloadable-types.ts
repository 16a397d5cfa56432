import type { JobDefinition } from "../config/objects.ts";
import type { HandlerHost } from "../protocol/ports/handlers.ts";
import type { Clock } from "../protocol/ports/surroundings.ts";

/** After this a type is tried again: another bundle may be in force, and jobs nobody can run must get their hold. */
const EXCLUDED_MS = 5_000;
const NONE: readonly string[] = [];

/** Job types whose bundle could not be loaded here; others get the chance to claim them. */
export class UnloadableTypes {
  readonly #host: Pick<HandlerHost, "unloadableBundles">;
  readonly #clock: Clock;
  readonly #excludedUntilMs = new Map<string, number>();
  #announced = 0;

  constructor(host: Pick<HandlerHost, "unloadableBundles">, clock: Clock) {
    this.#host = host;
    this.#clock = clock;
  }

  /** The types that are not claimed now. */
  types(): readonly string[] {
    if (this.#excludedUntilMs.size === 0) return NONE;
    const nowMs = this.#clock.monotonicMs();
    for (const [type, untilMs] of this.#excludedUntilMs) if (untilMs <= nowMs) this.#excludedUntilMs.delete(type);
    return [...this.#excludedUntilMs.keys()];
  }

  /** A job came whose bundle is known not to load: no more of its type for a while. */
  noticeClaim({ type, bundleHash }: JobDefinition): void {
    const bundles = this.#host.unloadableBundles();
    if (bundles.length === 0 || bundleHash === null || !bundles.includes(bundleHash)) return;
    this.#excludedUntilMs.set(type, this.#clock.monotonicMs() + EXCLUDED_MS);
  }

  /** Whether bundles were added since the last question. */
  hasNews(): boolean {
    const count = this.#host.unloadableBundles().length;
    const isNew = count > this.#announced;
    this.#announced = count;
    return isNew;
  }

  /** A revision came into force: every type is worth a try. */
  forget(): void {
    this.#excludedUntilMs.clear();
  }
}
