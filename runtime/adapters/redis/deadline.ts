/** What `withDeadline` gives when the time is over. */
export const LATE = Symbol("late");

/**
 * The work's value, or LATE after `ms`. An event loop that was held up runs its timers before it reads its sockets, so
 * what has arrived meanwhile is heard first.
 */
export function withDeadline<T>(work: Promise<T>, ms: number): Promise<T | typeof LATE> {
  return new Promise((done, fail) => {
    const timer = setTimeout(() => setImmediate(done, LATE), ms);
    work.then(
      (value) => {
        clearTimeout(timer);
        done(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        fail(error);
      },
    );
  });
}
