import type { JobRow, MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import type { JobId } from "../../runtime/core/ids.ts";

/** A copy of the tables, to which the database can be taken back. */
export interface Snapshot {
  /** Forgets everything that was committed since; gives the jobs whose rows it changed or removed. */
  restore(): ReadonlySet<JobId>;
}

/** Copies rows field by field; their identity stays, since indexes of the database hold on to them. */
export function takeSnapshot(database: MemoryDatabase): Snapshot {
  const rows = new Map([...database.jobs.values()].map((row) => [row, copyRow(row)]));
  const tables = Object.entries(database).flatMap(([name, table]: [string, unknown]) =>
    table instanceof Map || table instanceof Set || Array.isArray(table) ? [[name, copyTable(table)] as const] : [],
  );
  const coldStarts = database.coldStarts;
  return {
    restore() {
      const changed = new Set<JobId>();
      for (const row of database.jobs.values()) {
        const kept = rows.get(row);
        if (kept === undefined) {
          changed.add(row.id);
          // An entry of it in the order of the runnable is dead with that.
          row.state = "Cancelled";
          row.token = null;
        } else if (row.timeline.length !== kept.timeline.length || row.leaseCounter !== kept.leaseCounter) {
          changed.add(row.id);
        }
      }
      for (const [row, kept] of rows) Object.assign(row, copyRow(kept));
      for (const [name, table] of tables) refill(Reflect.get(database, name), table);
      database.coldStarts = coldStarts;
      for (const row of rows.keys()) if (row.state === "Enqueued") makeRunnable(database, row);
      return changed;
    },
  };
}

function copyRow(row: JobRow): JobRow {
  return { ...row, attempts: [...row.attempts], timeline: [...row.timeline] };
}

/** Rows of tables other than the jobs are small objects of plain values. */
function copyTable(table: Map<unknown, unknown> | Set<unknown> | unknown[]): Map<unknown, unknown> | unknown[] {
  if (table instanceof Map) {
    const isJobs = [...table.values()].some((row) => isJob(row));
    return new Map([...table].map(([key, row]) => [key, isJobs ? row : copyPlain(row)]));
  }
  return [...table];
}

function copyPlain(row: unknown): unknown {
  if (row === null || typeof row !== "object" || Object.getPrototypeOf(row) !== Object.prototype) return row;
  return { ...row };
}

function isJob(row: unknown): boolean {
  return typeof row === "object" && row !== null && "timeline" in row;
}

function refill(table: unknown, kept: Map<unknown, unknown> | unknown[]): void {
  if (table instanceof Map) {
    table.clear();
    for (const [key, row] of kept as Map<unknown, unknown>) table.set(key, row);
  } else if (table instanceof Set) {
    table.clear();
    for (const row of kept as unknown[]) table.add(row);
  } else if (Array.isArray(table)) table.splice(0, table.length, ...(kept as unknown[]));
}

function makeRunnable(database: MemoryDatabase, row: JobRow): void {
  const { usual, recovered } = database.runnable(row.queue);
  const order = row.recovered ? recovered : usual;
  const everything = { after: null, limit: Number.POSITIVE_INFINITY, wanted: (other: JobRow) => other === row };
  if (order.take(everything).length === 0) order.add(row);
}
