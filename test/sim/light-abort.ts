type Listener = () => void;

/**
 * What the engine uses of an AbortSignal, at a tenth of the cost: a world makes tens of thousands of them, and Node's
 * are event targets with everything that belongs to one.
 */
class LightSignal {
  aborted = false;
  reason: unknown = undefined;
  #listeners: Set<Listener> | null = null;

  addEventListener(_type: "abort", listener: Listener): void {
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
  }

  removeEventListener(_type: "abort", listener: Listener): void {
    this.#listeners?.delete(listener);
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }

  /** Told once, as Node does. */
  fire(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    const listeners = this.#listeners;
    this.#listeners = null;
    if (listeners !== null) for (const listener of listeners) listener();
  }
}

class LightAbortController {
  readonly signal = new LightSignal();

  abort(reason: unknown = "aborted"): void {
    this.signal.fire(reason);
  }
}

/** Everything that is made from now on until what is returned is called has light signals. */
export function useLightAborts(): () => void {
  const { AbortController } = globalThis;
  globalThis.AbortController = LightAbortController as unknown as typeof AbortController;
  return () => {
    globalThis.AbortController = AbortController;
  };
}

/** Everything that is made during `run`, which must be synchronous, has light signals. */
export function withLightAborts(run: () => void): void {
  const restore = useLightAborts();
  try {
    run();
  } finally {
    restore();
  }
}
