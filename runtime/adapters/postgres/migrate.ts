import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { type Database, type DatabaseAddress, isLockTimeout, openDatabase } from "./pool.ts";

export interface MigrationReport {
  /** Names of the files applied now, in order; empty when the schema was up to date. */
  readonly applied: readonly string[];
  readonly version: number;
}

interface Migration {
  readonly version: number;
  readonly name: string;
  readonly text: string;
  readonly sha256: string;
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
const FILE_NAME = /^(\d{4})-[a-z0-9-]+\.sql$/;

/** Where the numbered .sql files lie; beside this module, in the sources as in the build. */
export const MIGRATIONS_DIR = fileURLToPath(new URL("./migrations/", import.meta.url));

/**
 * Brings the schema to the newest version, one transaction a file. Any number of processes may call it at once: they
 * take turns. Throws TURNO_MIGRATION_CHANGED, TURNO_DATABASE_SCHEMA, or the database's own refusal.
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
    return { applied, version: await readVersion(database) };
  } finally {
    await database.close();
  }
}

/**
 * Refuses to work on a schema that is not the one of this code's own migrations; for every role but the migrator.
 * Throws TURNO_DATABASE_SCHEMA.
 */
export async function checkSchema(database: Database, directory: string = MIGRATIONS_DIR): Promise<void> {
  const expected = (await readMigrations(directory)).length;
  const version = await readVersion(database);
  if (version === expected) return;
  const found = version === 0 ? "has none" : `has ${version}`;
  throw new TurnoError(
    "TURNO_DATABASE_SCHEMA",
    `this Turno works with database schema ${expected}, and the database ${found}`,
    {
      hint: version < expected ? "run turno migrate" : "a newer Turno has migrated this database: upgrade this process",
    },
  );
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
    if (!(await hasTable(query))) await query(CREATE_TABLE);
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

async function hasTable(query: Database["query"]): Promise<boolean> {
  const [row] = await query<{ present: boolean }>("select to_regclass('turno.migrations') is not null as present");
  return row?.present === true;
}

/** 0: the database has no schema of Turno. */
async function readVersion(database: Database): Promise<number> {
  if (!(await hasTable(database.query))) return 0;
  const [row] = await database.query<{ version: number }>(
    "select coalesce(max(version), 0)::integer as version from turno.migrations",
  );
  return row?.version ?? 0;
}

function checkUnchanged(
  known: readonly { version: number; name: string; sha256: string }[],
  migrations: readonly Migration[],
): void {
  for (const { version, name, sha256 } of known) {
    const file = migrations.find((migration) => migration.version === version);
    if (file === undefined) {
      throw new TurnoError(
        "TURNO_DATABASE_SCHEMA",
        `the database has migration ${name}, which this version of Turno does not know`,
        {
          hint: "a newer Turno has migrated this database: upgrade this one",
        },
      );
    }
    if (file.sha256 !== sha256) {
      throw new TurnoError(
        "TURNO_MIGRATION_CHANGED",
        `migration ${name} was applied with another content than the file ${file.name} has now`,
        {
          hint: "restore the file as it was released; a change of the schema is a new migration",
        },
      );
    }
  }
}

async function readMigrations(directory: string): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith(".sql")).sort();
  return Promise.all(
    names.map(async (name, index) => {
      const version = Number(FILE_NAME.exec(name)?.[1]);
      if (version !== index + 1) {
        throw new TurnoError(
          "TURNO_DATABASE_SCHEMA",
          `expected migration ${index + 1} as ${String(index + 1).padStart(4, "0")}-<name>.sql in ${directory}, found ${name}`,
        );
      }
      const text = (await readFile(`${directory}/${name}`, "utf8")).replaceAll("\r\n", "\n");
      return { version, name: name.slice(0, -4), text, sha256: createHash("sha256").update(text).digest("hex") };
    }),
  );
}
