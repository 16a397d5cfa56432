/** Structured facts of a log line; values are shown as they are, so never pass a secret. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The logger every layer writes to; the pino adapter stands in adapters/system. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** The same logger with fields that stand in every line. */
  child(fields: LogFields): Logger;
}

/** Swallows everything; for tests and pure callers. */
export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLogger,
};
