import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";

export interface UnloadableOptions {
  /** Loads the bundle where nothing of it stays; why it cannot be loaded, or null. Rejects when nothing is known. */
  readonly probe: (hash: string) => Promise<string | null>;
  readonly logger: Logger;
  /** Before the first probe; each further one waits twice as long. */
  readonly firstProbeMs?: number | undefined;
}

const FIRST_PROBE_MS = 60_000;
const LONGEST_PROBE_MS = 600_000;

interface Entry {
  readonly detail: string;
  readonly waitMs: number;
  readonly timer: NodeJS.Timeout;
}

/**
 * Bundles that cannot be loaded on this machine. What keeps them may be mended without them (a package is installed, a
 * file is put in place), so they are tried again from time to time, and with each revision; never by jobs.
 */
export class UnloadableBundles {
  readonly #options: UnloadableOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #probing = new Set<string>();
  #closed = false;

  constructor(options: UnloadableOptions) {
    this.#options = options;
  }

  /** Why the bundle cannot be loaded, as far as it is known; null: it may be tried. */
  reason(hash: string): string | null {
    return this.#entries.get(hash)?.detail ?? null;
  }

  list(): readonly string[] {
    return [...this.#entries.keys()];
  }

  note(hash: string, detail: string): void {
    if (this.#entries.has(hash) || this.#closed) return;
    this.#options.logger.error("a handler cannot be loaded here", { bundle: hash, detail });
    this.#keep(hash, detail, this.#options.firstProbeMs ?? FIRST_PROBE_MS);
  }

  /** Something may have changed: all of them are tried now. */
  recheck(): void {
    for (const hash of this.#entries.keys()) void this.#probe(hash);
  }

  close(): void {
    this.#closed = true;
    for (const { timer } of this.#entries.values()) clearTimeout(timer);
  }

  #keep(hash: string, detail: string, waitMs: number): void {
    clearTimeout(this.#entries.get(hash)?.timer);
    const timer = setTimeout(() => void this.#probe(hash), waitMs);
    timer.unref();
    this.#entries.set(hash, { detail, waitMs, timer });
  }

  async #probe(hash: string): Promise<void> {
    const { logger, probe } = this.#options;
    const before = this.#entries.get(hash);
    if (before === undefined || this.#probing.has(hash)) return;
    this.#probing.add(hash);
    const found = await probe(hash).catch((error: unknown) => {
      logger.debug("a handler could not be tried again", { bundle: hash, error: describeError(error) });
      return before.detail;
    });
    this.#probing.delete(hash);
    if (this.#closed) return;
    if (found !== null) return this.#keep(hash, found, Math.min(before.waitMs * 2, LONGEST_PROBE_MS));
    clearTimeout(this.#entries.get(hash)?.timer);
    this.#entries.delete(hash);
    logger.info("a handler can be loaded here again", { bundle: hash });
  }
}
