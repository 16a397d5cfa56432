import { TurnoError } from "../../core/errors.ts";

/**
 * How a store or broker call can fail. Rejected: certainly not applied. Unknown: the connection went away while the
 * call was under way, it may have been applied. That a row was not there is a value, never an error.
 */
export class RejectedError extends TurnoError {
  override readonly name = "RejectedError";
  readonly sqlState: string | null;
  constructor(message: string, options: { readonly cause?: unknown; readonly sqlState?: string } = {}) {
    super("TURNO_DATABASE_REJECTED", message, { cause: options.cause });
    this.sqlState = options.sqlState ?? null;
  }
}

export class UnknownOutcomeError extends TurnoError {
  override readonly name = "UnknownOutcomeError";
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super("TURNO_DATABASE_UNKNOWN", message, { cause: options.cause });
  }
}

/**
 * PostgreSQL understood a statement and will refuse it again: its data (class 22), a constraint (23), the schema (42)
 * or a limit of the server (54). Everything else may pass by itself.
 */
export function isRefusal(error: unknown): error is RejectedError {
  return error instanceof RejectedError && error.sqlState !== null && /^(22|23|42|54)/.test(error.sqlState);
}
