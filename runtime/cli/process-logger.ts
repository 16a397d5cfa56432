import { createLogger, LOG_LEVELS, type LogLevel } from "../adapters/system/logger.ts";
import { TurnoError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { CommandIo } from "./io.ts";

/** A role's log: one JSON object a line, or text on a terminal. TURNO_LOG_LEVEL and TURNO_LOG_FORMAT decide otherwise. */
export function openProcessLogger(io: CommandIo, options: { readonly level: LogLevel }): Logger {
  const format = io.env.TURNO_LOG_FORMAT ?? (io.errIsTerminal ? "text" : "json");
  return createLogger({
    level: readLevel(io.env.TURNO_LOG_LEVEL) ?? options.level,
    format: format === "text" ? "text" : "json",
    colour: io.colour,
    write: io.err,
  });
}

function readLevel(text: string | undefined): LogLevel | null {
  if (text === undefined || text === "") return null;
  const level = LOG_LEVELS.find((known) => known === text);
  if (level !== undefined) return level;
  throw new TurnoError(
    "TURNO_USAGE",
    `expected TURNO_LOG_LEVEL to be one of ${LOG_LEVELS.join(", ")}, found "${text}"`,
  );
}
