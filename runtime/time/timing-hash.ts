import { createHash } from "node:crypto";
import { canonicalJson, type JsonObject } from "../core/json.ts";
import type { Timing } from "./timing.ts";

/**
 * Hash of everything that decides when a schedule fires, and of nothing else: as long as it stays, an edit leaves the
 * next fire untouched. Spaces in a cron expression don't count. Kept in the database: a new field of a timing must
 * not change the hash of timings without it.
 */
export function hashTiming(timing: Timing): string {
  const fields: JsonObject =
    timing.kind === "cron" ? { ...timing, expression: timing.expression.trim().replace(/\s+/g, " ") } : { ...timing };
  return `sha256:${createHash("sha256").update(canonicalJson(fields)).digest("hex")}`;
}
