import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { JsonObject } from "../../core/json.ts";
import type { Logger } from "../../core/logger.ts";
import type { FromRealm } from "./messages.ts";

const MAX_LINE = 16 * 1024;

/** Hands on what code wrote with console.log and its kind, line by line. */
export function forwardLines(stream: Readable | null, write: (line: string) => void): void {
  if (stream === null) return;
  createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on("line", (line) => {
    if (line !== "") write(line.slice(0, MAX_LINE));
  });
}

/** Writes a line of `ctx.log` with the job it belongs to. */
export function forwardLog(logger: Logger, message: Extract<FromRealm, readonly ["log", ...unknown[]]>): void {
  const [, jobId, type, level, text, json] = message;
  const fields = json === null ? {} : (JSON.parse(json) as JsonObject);
  logger[level](text, { ...fields, jobId, type });
}
