import { describeError, TurnoError } from "../core/errors.ts";

/** Reads what stands after an option. Throws TURNO_USAGE, naming the option, for whatever the reader throws. */
export function usage<Value>(option: string, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    throw new TurnoError("TURNO_USAGE", `${option}: ${describeError(error)}`, {
      cause: error,
      ...(error instanceof TurnoError && error.hint !== null ? { hint: error.hint } : {}),
    });
  }
}
