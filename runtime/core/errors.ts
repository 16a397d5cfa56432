import { ERROR_CODES, type ErrorCode } from "./error-codes.ts";

/** Where in a file an error stands; lines and columns count from 1. */
export interface SourcePosition {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export interface TurnoErrorOptions {
  readonly cause?: unknown;
  /** What the reader should do now; one sentence. */
  readonly hint?: string;
  readonly position?: SourcePosition;
}

/**
 * An operating error: something outside the program is not as expected. The message says what was expected,
 * what was found and what to do, and never holds a secret.
 */
export class TurnoError extends Error {
  override readonly name: string = "TurnoError";
  readonly code: ErrorCode;
  readonly hint: string | null;
  readonly position: SourcePosition | null;

  constructor(code: ErrorCode, message: string, options: TurnoErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.hint = options.hint ?? null;
    this.position = options.position ?? null;
  }
}

export { ERROR_CODES, type ErrorCode };

/** The text of anything thrown; never throws itself, whatever the value's own accessors do. */
export function describeError(error: unknown): string {
  try {
    if (error instanceof Error) return error.message === "" ? error.name : error.message;
    return String(error);
  } catch {
    return "(an error whose text cannot be read)";
  }
}
