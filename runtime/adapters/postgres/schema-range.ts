import { setTimeout as delay } from "node:timers/promises";
import { TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { MIGRATIONS_DIR, type Migration, readMigrations } from "./migration-files.ts";
import type { Database } from "./pool.ts";

/** Schema versions that code works with. Newer ones too, as long as their migrations say so in the database. */
export interface SchemaRange {
  /** Needed; what comes after it only took away what this code does not use. */
  readonly oldest: number;
  readonly newest: number;
}

const LOOK_MS = 1_000;
const TELL_EVERY_LOOKS = 60;
/** Afterwards the process ends and its supervisor starts it again, so that a wait in vain is seen there too. */
const LOOKS_AT_MOST = 600;

/** The range of this code, from its own migrations. */
export async function readSchemaRange(directory: string = MIGRATIONS_DIR): Promise<SchemaRange> {
  return rangeOf(await readMigrations(directory));
}

/**
 * Refuses to work on a schema outside this code's range; for every role but the migrator. Throws TURNO_DATABASE_SCHEMA.
 */
export async function checkSchema(database: Database, directory: string = MIGRATIONS_DIR): Promise<void> {
  const range = await readSchemaRange(directory);
  const verdict = await judgeSchema(database, range);
  if (verdict.kind !== "fits") throw outside(range, verdict);
}

/**
 * For roles that do not migrate: waits while the schema is missing or older, at most ten minutes. True when it fits, false when
 * the signal came first. Throws TURNO_DATABASE_SCHEMA for a schema that is too new, or still too old.
 */
export async function waitForSchema(
  database: Database,
  options: { readonly logger: Logger; readonly signal: AbortSignal; readonly directory?: string },
): Promise<boolean> {
  const range = await readSchemaRange(options.directory);
  for (let looks = 0; !options.signal.aborted; looks += 1) {
    const verdict = await judgeSchema(database, range);
    if (verdict.kind === "fits") return true;
    if (verdict.kind === "too-new" || looks >= LOOKS_AT_MOST) throw outside(range, verdict);
    if (looks % TELL_EVERY_LOOKS === 0) {
      options.logger.warn("the database's schema is older than this Turno needs; waiting until it is migrated", {
        found: verdict.found,
        needed: range.oldest,
      });
    }
    await delay(LOOK_MS, undefined, { signal: options.signal }).catch(() => {});
  }
  return false;
}

/** 0: the database has no schema of Turno. */
export async function readVersion(database: Database): Promise<number> {
  if (!(await hasMigrationsTable(database.query))) return 0;
  const [row] = await database.query<{ version: number }>(
    "select coalesce(max(version), 0)::integer as version from turno.migrations",
  );
  return row?.version ?? 0;
}

export async function hasMigrationsTable(query: Database["query"]): Promise<boolean> {
  const [row] = await query<{ present: boolean }>("select to_regclass('turno.migrations') is not null as present");
  return row?.present === true;
}

type Verdict =
  | { readonly kind: "fits" }
  | { readonly kind: "too-old"; readonly found: number }
  | { readonly kind: "too-new"; readonly found: number; readonly oldestCode: number };

async function judgeSchema(database: Database, range: SchemaRange): Promise<Verdict> {
  const found = await readVersion(database);
  if (found < range.oldest) return { kind: "too-old", found };
  if (found <= range.newest) return { kind: "fits" };
  const [row] = await database.query<{ oldest_code: number }>(
    "select coalesce(max(oldest_code), 0)::integer as oldest_code from turno.migrations where version > $1",
    [range.newest],
  );
  const oldestCode = row?.oldest_code ?? 0;
  return oldestCode <= range.newest ? { kind: "fits" } : { kind: "too-new", found, oldestCode };
}

/** Code needs every migration of its own, but for contracts behind the last one that adds something. */
function rangeOf(migrations: readonly Migration[]): SchemaRange {
  return {
    oldest: migrations.findLast(({ oldestCode }) => oldestCode === null)?.version ?? 0,
    newest: migrations.length,
  };
}

function outside({ oldest, newest }: SchemaRange, verdict: Exclude<Verdict, { kind: "fits" }>): TurnoError {
  const range = oldest === newest ? `schema ${newest}` : `schemas ${oldest} to ${newest}`;
  const found = verdict.found === 0 ? "has none" : `has ${verdict.found}`;
  if (verdict.kind === "too-old") {
    return new TurnoError(
      "TURNO_DATABASE_SCHEMA",
      `this Turno works with database ${range}, and the database ${found}`,
      {
        hint: "run turno migrate, or start turno server of this version",
      },
    );
  }
  return new TurnoError(
    "TURNO_DATABASE_SCHEMA",
    `this Turno works with database ${range}, and the database ${found}, for Turno that knows schema ${verdict.oldestCode} or newer`,
    { hint: "a newer Turno has migrated this database: upgrade this process" },
  );
}
