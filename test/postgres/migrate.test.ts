import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { migrate } from "../../runtime/adapters/postgres/migrate.ts";
import { MIGRATIONS_DIR } from "../../runtime/adapters/postgres/migration-files.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { checkSchema } from "../../runtime/adapters/postgres/schema-range.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { holdTransaction, untilBlocked } from "./held-transaction.ts";

let target: TestDatabase;
let database: Database;
let folder: string;

beforeEach(async () => {
  target = await createTestDatabase({ migrated: false });
  database = openDatabase({
    address: target.address,
    applicationName: "test",
    size: 2,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  folder = await mkdtemp(join(tmpdir(), "turno-migrations-"));
  await cp(MIGRATIONS_DIR, folder, { recursive: true });
});

afterEach(async () => {
  await database.close();
  await target.drop();
  await rm(folder, { recursive: true });
});

const files = (await readdir(MIGRATIONS_DIR)).sort().map((name) => name.replace(".sql", ""));
const newest = files.length;
const nextFile = () => join(folder, `${String(newest + 1).padStart(4, "0")}-next.sql`);

test("an empty database is brought to the newest version, and a second run applies nothing", async () => {
  expect(await migrate(target.address, silentLogger)).toEqual({ applied: files, version: newest });
  expect(await migrate(target.address, silentLogger)).toEqual({ applied: [], version: newest });
});

test("eight migrators at once apply every file exactly once", async () => {
  const reports = await Promise.all(Array.from({ length: 8 }, () => migrate(target.address, silentLogger)));
  expect(reports.flatMap(({ applied }) => applied)).toHaveLength(newest);
  expect(new Set(reports.map(({ version }) => version))).toEqual(new Set([newest]));
});

test("a migration that fails leaves nothing of itself, and the ones before it stay", async () => {
  await writeFile(nextFile(), "create table turno.half (id int); select 1 / 0;");
  await expect(migrate(target.address, silentLogger, folder)).rejects.toThrow("division by zero");
  const rows = await database.query(
    "select to_regclass('turno.half') as half, max(version) as version from turno.migrations",
  );
  expect(rows).toEqual([{ half: null, version: newest }]);
  await writeFile(nextFile(), "create table turno.half (id int);");
  expect((await migrate(target.address, silentLogger, folder)).version).toBe(newest + 1);
});

test("a migration whose file was changed after it was applied is refused by name", async () => {
  await migrate(target.address, silentLogger, folder);
  const [first = ""] = (await readdir(folder)).sort();
  await writeFile(join(folder, first), "select 1;");
  await expect(migrate(target.address, silentLogger, folder)).rejects.toMatchObject({
    code: "TURNO_MIGRATION_CHANGED",
    message: expect.stringContaining(first.replace(".sql", "")),
  });
});

test("line ends of a Windows checkout are no change of a migration", async () => {
  await migrate(target.address, silentLogger);
  const [first = ""] = (await readdir(folder)).sort();
  await writeFile(join(folder, first), (await readFile(join(folder, first), "utf8")).replaceAll("\n", "\r\n"));
  expect((await migrate(target.address, silentLogger, folder)).applied).toEqual([]);
});

test("a gap in the numbers is refused before anything is applied", async () => {
  await writeFile(join(folder, "0099-far.sql"), "select 1;");
  await expect(migrate(target.address, silentLogger, folder)).rejects.toMatchObject({ code: "TURNO_DATABASE_SCHEMA" });
  await expect(checkSchema(database)).rejects.toThrow("the database has none");
});

test("a migration that waits for a table lets others through, and is applied when the table is free", async () => {
  await migrate(target.address, silentLogger, folder);
  await writeFile(nextFile(), "alter table turno.queues add column next_one int;");
  const reader = await holdTransaction(target.address);
  await reader.database.query("select count(*) from turno.queues");
  const migrating = migrate(target.address, silentLogger, folder);
  await untilBlocked(database);
  expect(await database.query("select name from turno.queues")).toEqual([]);
  await reader.commit();
  expect((await migrating).version).toBe(newest + 1);
});
