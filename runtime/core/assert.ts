import { TurnoError } from "./errors.ts";

/** Programmer errors stop the program, in production too. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new TurnoError("TURNO_ASSERTION_FAILED", message);
}

/** Ends a closed union: the compiler proves that no case is missing. */
export function unreachable(value: never): never {
  throw new TurnoError("TURNO_ASSERTION_FAILED", `unexpected case: ${String(value)}`);
}
