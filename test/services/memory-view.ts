import { createHash } from "node:crypto";
import type { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import type { JobDefinition } from "../../runtime/config/objects.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import type { JobView } from "../contract/store-under-test.ts";

/** Puts a job type in force, as an apply does. */
export function declareJob(database: MemoryDatabase, definition: JobDefinition): void {
  const hash = `sha256:${createHash("sha256").update(JSON.stringify(definition)).digest("hex")}`;
  database.definitions.set(hash, definition);
  const revision = (database.types.get(definition.type)?.revision ?? 0) + 1;
  database.types.set(definition.type, { definition, hash, revision });
}

/** A job as the contract suite looks at it. */
export function viewJob(database: MemoryDatabase, id: JobId): JobView | null {
  const row = database.jobs.get(id);
  if (row === undefined) return null;
  return {
    ...row,
    started: row.startedAtMs !== null,
    result: row.result === null ? null : JSON.parse(row.result),
    dueInMs: row.runAtMs - database.nowMs(),
    attempts: row.attempts.map((attempt) => attempt.outcome),
  };
}
