import { setTimeout as delay } from "node:timers/promises";
import { TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { MIGRATIONS_DIR, type Migration, readMigrations } from "./migration-files.ts";
import { type Database, type DatabaseAddress, isLockTimeout, openDatabase } from "./pool.ts";
import { checkSchema, hasMigrationsTable, readVersion } from "./schema-range.ts";

export interface MigrationReport {
  /** Names of the files applied now, in order; empty when the schema was up to date. */
  readonly applied: readonly string[];
  readonly version: number;
}

/** Building an index on a large table is the longest a single migration takes. */
const STATEMENT_LIMIT_MS = 3_600_000;
/**
 * Everybody else waits behind a change that waits for a table, and a dump holds tables for hours: so the change waits a second at a
 * time, lets the others through, and tries again for this long.
 */
const TABLE_WAIT_MS = 1_000;
const PATIENCE_MS = 600_000;
/** Key of the transaction-level advisory lock under which migrators take turns: "turno" in ASCII. */
const LOCK_KEY = 0x7475726e6f;

/**
 * Brings the schema to the newest version, one transaction a file. Any number of processes may call it at once: they
 * take turns. A newer schema that this code works with is left as it is. Throws TURNO_MIGRATION_CHANGED,
 * TURNO_DATABASE_SCHEMA, or the database's own refusal.
 */
export async function migrate(
  address: DatabaseAddress,
  logger: Logger,
  directory: string = MIGRATIONS_DIR,
): Promise<MigrationReport> {
  const migrations = await readMigrations(directory);
  const database = openDatabase({
    address,
    applicationName: "turno migrate",
    size: 1,
    statementTimeoutMs: STATEMENT_LIMIT_MS,
    logger,
  });
  const applied: string[] = [];
  try {
    for (const migration of migrations) {
      if (!(await applyPatiently(() => applyOnce(database, { migration, migrations }), { migration, logger })))
        continue;
      applied.push(migration.name);
      logger.info("applied a migration", { migration: migration.name });
    }
    await checkSchema(database, directory);
    return { applied, version: await readVersion(database) };
  } finally {
    await database.close();
  }
}

async function applyPatiently(
  apply: () => Promise<boolean>,
  { migration, logger }: { readonly migration: Migration; readonly logger: Logger },
): Promise<boolean> {
  const sinceMs = performance.now();
  for (let isTold = false; ; isTold = true) {
    try {
      return await apply();
    } catch (error) {
      if (!isLockTimeout(error) || performance.now() - sinceMs > PATIENCE_MS) throw error;
      if (!isTold) logger.warn("a table is in use; the migration tries again", { migration: migration.name });
      await delay(TABLE_WAIT_MS);
    }
  }
}

/** One migration in one transaction; false when it was there already. */
function applyOnce(
  database: Database,
  options: { readonly migration: Migration; readonly migrations: readonly Migration[] },
): Promise<boolean> {
  const { migration, migrations } = options;
  return database.transaction(async (query) => {
    await query("select pg_advisory_xact_lock($1)", [LOCK_KEY]);
    if (!(await hasMigrationsTable(query))) await query(CREATE_TABLE);
    const known = await query<{ version: number; name: string; sha256: string }>(
      "select version, name, sha256 from turno.migrations order by version",
    );
    checkUnchanged(known, migrations);
    if (known.some(({ version }) => version === migration.version)) return false;
    await query(`set local lock_timeout = ${TABLE_WAIT_MS}`);
    await query(migration.text);
    await query("insert into turno.migrations (version, name, sha256) values ($1, $2, $3)", [
      migration.version,
      migration.name,
      migration.sha256,
    ]);
    if (migration.oldestCode !== null) {
      await query("update turno.migrations set oldest_code = $2 where version = $1", [
        migration.version,
        migration.oldestCode,
      ]);
    }
    return true;
  });
}

const CREATE_TABLE = `
create schema if not exists turno;
create table turno.migrations (
  version    integer primary key,
  name       text not null,
  sha256     text not null,
  applied_at timestamptz not null default now()
)`;

/** Migrations that this code does not know are newer ones; whether it works with them is asked at the end. */
function checkUnchanged(
  known: readonly { version: number; name: string; sha256: string }[],
  migrations: readonly Migration[],
): void {
  for (const { version, name, sha256 } of known) {
    const file = migrations.find((migration) => migration.version === version);
    if (file === undefined || file.sha256 === sha256) continue;
    throw new TurnoError(
      "TURNO_MIGRATION_CHANGED",
      `migration ${name} was applied with another content than the file ${file.name} has now`,
      {
        hint: "restore the file as it was released; a change of the schema is a new migration",
      },
    );
  }
}
