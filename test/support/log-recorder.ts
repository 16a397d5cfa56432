import type { LogFields, Logger } from "../../runtime/core/logger.ts";

export interface RecordedLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: LogFields;
}

/** A logger that keeps its lines. */
export function recordLogger(): { readonly logger: Logger; readonly lines: RecordedLine[] } {
  const lines: RecordedLine[] = [];
  const write = (level: RecordedLine["level"], base: LogFields) => (message: string, fields?: LogFields) =>
    void lines.push({ level, message, fields: { ...base, ...fields } });
  const make = (base: LogFields): Logger => ({
    debug: write("debug", base),
    info: write("info", base),
    warn: write("warn", base),
    error: write("error", base),
    child: (fields) => make({ ...base, ...fields }),
  });
  return { logger: make({}), lines };
}
