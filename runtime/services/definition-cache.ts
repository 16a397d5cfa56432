import type { JobDefinition } from "../config/objects.ts";
import type { ExecutionStore } from "../protocol/ports/jobs.ts";

const MOST_KEPT = 1_000;

/** Definitions by content hash, so nothing in it is ever out of date. */
export class DefinitionCache {
  readonly #kept = new Map<string, JobDefinition>();
  readonly #store: Pick<ExecutionStore, "loadDefinitions">;

  constructor(store: Pick<ExecutionStore, "loadDefinitions">) {
    this.#store = store;
  }

  get(hash: string): JobDefinition | null {
    return this.#kept.get(hash) ?? null;
  }

  /** Fetches those that are missing. */
  async load(hashes: Iterable<string>): Promise<void> {
    const missing = [...new Set(hashes)].filter((hash) => !this.#kept.has(hash));
    if (missing.length === 0) return;
    for (const [hash, definition] of await this.#store.loadDefinitions(missing)) {
      const [oldest] = this.#kept.keys();
      if (this.#kept.size >= MOST_KEPT && oldest !== undefined) this.#kept.delete(oldest);
      this.#kept.set(hash, definition);
    }
  }
}
