import type { Readable } from "node:stream";
import type { JsonObject } from "../../core/json.ts";
import type { Logger } from "../../core/logger.ts";
import type { FromRealm } from "./messages.ts";

const MAX_LINE = 16 * 1024;

/**
 * Hands on what code wrote with console.log and its kind, line by line. Of a longer line the beginning is kept, and
 * never more of it in memory: a handler may write for hours without a line break.
 */
export function forwardLines(stream: Readable | null, write: (line: string) => void): void {
  if (stream === null) return;
  let line = "";
  const end = () => {
    if (line !== "") write(line);
    line = "";
  };
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    for (const [index, part] of chunk.split(/\r?\n/).entries()) {
      if (index > 0) end();
      line += part.slice(0, MAX_LINE - line.length);
    }
  });
  stream.once("end", end);
  // The exit of the thread or process tells what went wrong.
  stream.on("error", () => {});
}

/** Writes a line of `ctx.log` with the job it belongs to. */
export function forwardLog(logger: Logger, message: Extract<FromRealm, readonly ["log", ...unknown[]]>): void {
  const [, jobId, type, level, text, json] = message;
  const fields = json === null ? {} : (JSON.parse(json) as JsonObject);
  logger[level](text, { ...fields, jobId, type });
}
