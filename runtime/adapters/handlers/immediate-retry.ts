import { isTransient } from "./handler-error.ts";

export interface ImmediateRetry {
  readonly attempts: number;
  readonly initialMs: number;
}

/**
 * Goes on after a transient failure inside the same attempt: up to `attempts` further calls with exponential waits.
 * Rejects with the last error; an abort ends a wait at once, and never a call that is under way.
 */
export async function retryAtOnce(
  call: () => unknown,
  firstError: unknown,
  { attempts, initialMs }: ImmediateRetry,
  signal: AbortSignal,
): Promise<unknown> {
  // Loaded at the first transient failure: most threads never need it.
  const { ExponentialBackoff, handleWhen, retry } = await import("cockatiel");
  const policy = retry(handleWhen(isTransient), {
    maxAttempts: attempts,
    backoff: new ExponentialBackoff({ initialDelay: initialMs, maxDelay: Math.max(initialMs, 60_000) }),
  });
  let lastError = firstError;
  let waiting = false;
  policy.onRetry(() => {
    waiting = true;
  });
  return new Promise((resolve, reject) => {
    // cockatiel's waits do not look at the signal.
    const onAbort = () => {
      if (waiting) reject(lastError);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    policy
      .execute(async ({ attempt }) => {
        waiting = false;
        // The first call was made before, on the path that costs nothing.
        if (attempt === 0 || signal.aborted) throw lastError;
        try {
          return await call();
        } catch (error) {
          lastError = error;
          throw error;
        }
      }, signal)
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", onAbort));
  });
}
