import type { Context } from "hono";
import { type ErrorCode, TurnoError } from "../runtime/core/errors.ts";
import { RejectedError, UnknownOutcomeError } from "../runtime/protocol/ports/errors.ts";

const TITLES = {
  400: "Bad request",
  401: "Not authenticated",
  403: "Not allowed",
  404: "Not found",
  405: "Method not allowed",
  409: "Conflict",
  413: "Body too large",
  415: "Unsupported media type",
  421: "Misdirected request",
  422: "Not valid",
  500: "Internal error",
  503: "Not available",
} as const;
export type ProblemStatus = keyof typeof TITLES;

/** What is wrong with one member of the request's body. */
export interface FieldError {
  /** JSON pointer into the body (RFC 6901). */
  readonly pointer: string;
  readonly detail: string;
}

/** An answer that is not the wished one: Problem Details of RFC 9457. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  readonly status: ProblemStatus;
  readonly code: ErrorCode;
  readonly errors: readonly FieldError[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: ProblemStatus,
    detail: string,
    options: {
      readonly code?: ErrorCode;
      readonly errors?: readonly FieldError[];
      readonly headers?: Readonly<Record<string, string>>;
    } = {},
  ) {
    super(detail);
    this.status = status;
    this.code = options.code ?? "TURNO_API_REQUEST";
    this.errors = options.errors ?? [];
    this.headers = options.headers ?? {};
  }

  get title(): string {
    return TITLES[this.status];
  }
}

/** Any error as a problem. What is not ours to explain becomes a 500 that tells nothing. */
export function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof RejectedError || error instanceof UnknownOutcomeError) {
    const detail =
      error instanceof UnknownOutcomeError
        ? "The connection to the database was lost; what was asked for may have been done. Look before asking again."
        : "The database did not answer or refused; nothing was changed. Try again later.";
    return new ProblemError(503, detail, { code: error.code, headers: { "Retry-After": "5" } });
  }
  if (error instanceof TurnoError) return new ProblemError(500, error.message, { code: error.code });
  return new ProblemError(500, "Something went wrong inside Turno; its log tells more.", {
    code: "TURNO_SERVER_ERROR",
  });
}

export function problemBody(problem: ProblemError): Readonly<Record<string, unknown>> {
  return {
    type: "about:blank",
    title: problem.title,
    status: problem.status,
    detail: problem.message,
    code: problem.code,
    ...(problem.errors.length > 0 ? { errors: problem.errors } : {}),
  };
}

export function problemResponse(c: Context, problem: ProblemError): Response {
  return c.body(JSON.stringify(problemBody(problem)), problem.status, {
    ...problem.headers,
    "Content-Type": "application/problem+json",
  });
}
