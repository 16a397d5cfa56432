import { describeError } from "../core/errors.ts";
import { RejectedError, UnknownOutcomeError } from "../protocol/ports/errors.ts";
import type { Observer } from "../protocol/ports/surroundings.ts";

/** Tells once when a loop's database goes away, and once when it is back; other failures once each until one succeeds. */
export interface DatabaseWatch {
  failed(error: unknown): void;
  succeeded(): void;
}

export function createDatabaseWatch(loop: string, observer: Observer): DatabaseWatch {
  let away = false;
  let lastFailure: string | null = null;
  return {
    failed(error) {
      const message = describeError(error);
      if (isAway(error)) {
        if (!away) observer.observe({ kind: "database-away", loop, message });
        away = true;
      } else if (message !== lastFailure) {
        lastFailure = message;
        observer.observe({ kind: "loop-failed", loop, message });
      }
    },
    succeeded() {
      lastFailure = null;
      if (!away) return;
      away = false;
      observer.observe({ kind: "database-back", loop, message: "PostgreSQL answers again" });
    },
  };
}

/** No answer, or one that says that the server is starting, stopping or full (classes 53 and 57). */
function isAway(error: unknown): boolean {
  if (error instanceof UnknownOutcomeError) return true;
  return error instanceof RejectedError && (error.sqlState === null || /^(53|57)/.test(error.sqlState));
}
