import type { JobRow, MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import type { JobId } from "../../runtime/core/ids.ts";

/** A copy of the tables, to which the database can be taken back. */
export interface Snapshot {
  /** Forgets everything that was committed since; gives the jobs whose rows it changed or removed. */
  restore(): ReadonlySet<JobId>;
}

/** Copies every row. Numbers that only grow (tokens) stay: a new timeline of the server begins above them. */
export function takeSnapshot(database: MemoryDatabase): Snapshot {
  const rows = new Map([...database.jobs.values()].map((row) => [row, copyRow(row)]));
  const tables = [database, database.outbox].flatMap((owner) =>
    Object.values(owner).flatMap((table: unknown) => (isTable(table) ? [[table, copyTable(table)] as const] : [])),
  );
  const { transport } = database.outbox;
  const coldStarts = database.coldStarts;
  return {
    restore() {
      const changed = new Set<JobId>();
      for (const row of database.jobs.values()) {
        const kept = rows.get(row);
        const isSame = kept?.timeline.length === row.timeline.length && kept.leaseCounter === row.leaseCounter;
        if (!isSame) changed.add(row.id);
      }
      for (const row of [...database.jobs.values(), ...rows.keys()]) {
        // The order of the runnable may hold on to it: an entry of it is dead with that.
        row.state = "Cancelled";
        row.token = null;
      }
      const restored = (value: unknown): unknown => rows.get(value as JobRow) ?? value;
      for (const [table, kept] of tables) refill(table, kept, restored);
      database.outbox.transport = transport;
      database.coldStarts = coldStarts;
      for (const row of rows.values()) {
        if (row.state !== "Enqueued") continue;
        const { usual, recovered } = database.runnable(row.queue);
        (row.recovered ? recovered : usual).add(row);
      }
      return changed;
    },
  };
}

type Table = Map<unknown, unknown> | Set<unknown> | unknown[];

function isTable(value: unknown): value is Table {
  return value instanceof Map || value instanceof Set || Array.isArray(value);
}

function copyRow(row: JobRow): JobRow {
  return { ...row, attempts: [...row.attempts], timeline: [...row.timeline] };
}

function copyTable(table: Table): Table {
  if (table instanceof Map) return new Map([...table].map(([key, row]) => [key, copyPlain(row)]));
  return table instanceof Set ? new Set(table) : [...table];
}

/** Rows of tables other than the jobs are small objects of plain values. */
function copyPlain(row: unknown): unknown {
  if (row === null || typeof row !== "object" || Object.getPrototypeOf(row) !== Object.prototype) return row;
  return "timeline" in row ? row : { ...row };
}

function refill(table: unknown, kept: Table, restored: (value: unknown) => unknown): void {
  if (table instanceof Map) {
    table.clear();
    for (const [key, row] of kept as Map<unknown, unknown>) table.set(key, restored(row));
  } else if (table instanceof Set) {
    table.clear();
    for (const row of kept as Set<unknown>) table.add(restored(row));
  } else if (Array.isArray(table)) table.splice(0, table.length, ...(kept as unknown[]).map(restored));
}
