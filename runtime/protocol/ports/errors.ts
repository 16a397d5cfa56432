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
