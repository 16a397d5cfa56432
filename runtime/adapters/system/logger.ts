import { type Logger as Pino, pino, stdTimeFunctions } from "pino";
import type { LogFields, Logger } from "../../core/logger.ts";
import { formatLine } from "./log-text.ts";
import { redactFields, redactText } from "./redact.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LoggerOptions {
  readonly level: LogLevel;
  /** `json`: one object a line. `text`: lines for people. */
  readonly format: "json" | "text";
  /** Colour in `text` lines. */
  readonly colour: boolean;
  /** Takes whole lines with their line end; standard error by default. */
  readonly write?: (line: string) => void;
}

/** A logger on pino that writes at once, so that a killed process loses no line, and never shows a secret. */
export function createLogger(options: LoggerOptions): Logger {
  const write = options.write ?? ((line: string) => void process.stderr.write(line));
  const destination =
    options.format === "json" ? { write } : { write: (line: string) => write(formatLine(line, options.colour)) };
  const sink = pino(
    {
      level: options.level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination,
  );
  return wrap(sink);
}

/** What suits the place: text on a terminal, JSON elsewhere. */
export function createProcessLogger(level: LogLevel = "info"): Logger {
  const isTerminal = process.stderr.isTTY === true;
  return createLogger({ level, format: isTerminal ? "text" : "json", colour: isTerminal && !process.env.NO_COLOR });
}

/** Logging never fails: a field whose accessor throws costs the fields, not the line. */
function readable(fields: LogFields): Record<string, unknown> {
  try {
    return redactFields(fields);
  } catch {
    return { fields: "(fields that cannot be read)" };
  }
}

function wrap(sink: Pino): Logger {
  const line = (level: "debug" | "info" | "warn" | "error") => (message: string, fields?: LogFields) => {
    if (!sink.isLevelEnabled(level)) return;
    if (fields === undefined) sink[level](redactText(message));
    else sink[level](readable(fields), redactText(message));
  };
  return {
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
    child: (fields) => wrap(sink.child(readable(fields))),
  };
}
