import { cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { migrate } from "../../runtime/adapters/postgres/migrate.ts";
import { MIGRATIONS_DIR } from "../../runtime/adapters/postgres/migration-files.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { checkSchema, readSchemaRange, waitForSchema } from "../../runtime/adapters/postgres/schema-range.ts";
import { type Logger, silentLogger } from "../../runtime/core/logger.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

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
  folder = await mkdtemp(join(tmpdir(), "turno-range-"));
  await cp(MIGRATIONS_DIR, folder, { recursive: true });
});

afterEach(async () => {
  await database.close();
  await target.drop();
  await rm(folder, { recursive: true });
});

const newest = (await readdir(MIGRATIONS_DIR)).length;
const add = (version: number, text: string) =>
  writeFile(join(folder, `${String(version).padStart(4, "0")}-later.sql`), text);
const contract = (oldestCode: number) =>
  `-- contract: works with code of schema ${oldestCode} and newer\nalter table turno.queues drop column old;\n`;

describe("code", () => {
  test("works with the schema that it knows, and says what it found where there is none", async () => {
    await expect(checkSchema(database)).rejects.toMatchObject({
      code: "TURNO_DATABASE_SCHEMA",
      message: `this Turno works with database schema ${newest}, and the database has none`,
      hint: expect.stringContaining("run turno migrate"),
    });
    await migrate(target.address, silentLogger);
    await checkSchema(database);
  });

  test("works with a newer schema that only adds, and migrates nothing there", async () => {
    await add(newest + 1, "alter table turno.queues add column old int;");
    await migrate(target.address, silentLogger, folder);
    await checkSchema(database);
    expect(await migrate(target.address, silentLogger)).toEqual({ applied: [], version: newest + 1 });
  });

  test("works with a newer schema whose contract takes away what it does not use", async () => {
    await add(newest + 1, "alter table turno.queues add column old int;");
    await add(newest + 2, contract(newest));
    await migrate(target.address, silentLogger, folder);
    await checkSchema(database);
  });

  test("refuses a newer schema whose contract takes away what it uses, and migrates nothing there", async () => {
    await add(newest + 1, "alter table turno.queues add column old int;");
    await add(newest + 2, contract(newest + 1));
    await migrate(target.address, silentLogger, folder);
    const refusal = {
      code: "TURNO_DATABASE_SCHEMA",
      message: `this Turno works with database schema ${newest}, and the database has ${newest + 2}, for Turno that knows schema ${newest + 1} or newer`,
      hint: expect.stringContaining("upgrade this process"),
    };
    await expect(checkSchema(database)).rejects.toMatchObject(refusal);
    await expect(migrate(target.address, silentLogger)).rejects.toMatchObject(refusal);
    await expect(
      waitForSchema(database, { logger: silentLogger, signal: new AbortController().signal }),
    ).rejects.toMatchObject(refusal);
  });

  test("does not need a contract of its own to be applied: workers of the new version may start first", async () => {
    await add(newest + 1, "alter table turno.queues add column old int;");
    await migrate(target.address, silentLogger, folder);
    await add(newest + 2, contract(newest));
    expect(await readSchemaRange(folder)).toEqual({ oldest: newest + 1, newest: newest + 2 });
    await checkSchema(database, folder);
    await add(newest + 3, "select 1;");
    await expect(checkSchema(database, folder)).rejects.toThrow(
      `schema ${newest + 3}, and the database has ${newest + 1}`,
    );
  });

  test("cannot have a contract that would end the code it comes with", async () => {
    await add(newest + 1, contract(newest + 1));
    await expect(migrate(target.address, silentLogger, folder)).rejects.toThrow(/code of an older schema/);
  });
});

describe("a role that does not migrate", () => {
  test("waits for the schema, says so once, and goes on when it is there", async () => {
    const lines: string[] = [];
    let waiting: Promise<boolean> | null = null;
    await new Promise<void>((told) => {
      const logger: Logger = {
        ...silentLogger,
        warn(message) {
          lines.push(message);
          told();
        },
      };
      waiting = waitForSchema(database, { logger, signal: new AbortController().signal });
    });
    await migrate(target.address, silentLogger);
    expect(await waiting).toBe(true);
    expect(lines).toEqual(["the database's schema is older than this Turno needs; waiting until it is migrated"]);
  });

  test("stops waiting when it is told to", async () => {
    const stop = new AbortController();
    const waiting = waitForSchema(database, {
      logger: { ...silentLogger, warn: () => stop.abort() },
      signal: stop.signal,
    });
    expect(await waiting).toBe(false);
  });
});
