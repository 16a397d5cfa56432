import { cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { migrate } from "../../runtime/adapters/postgres/migrate.ts";
import { MIGRATIONS_DIR } from "../../runtime/adapters/postgres/migration-files.ts";
import { openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { checkSchema } from "../../runtime/adapters/postgres/schema-range.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { storeContract } from "../contract/store-contract.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { findNarrowings } from "./expansion-rules.ts";
import { openStoreUnderTest } from "./store-on-database.ts";

/**
 * A next version's migration, with all that an expansion may bring: every table gets an optional column with a check, a
 * column with a default and an index, and there is a new table that follows another.
 */
const NEXT = `
do $$
declare
  target record;
begin
  for target in
    select c.oid::regclass as name, c.relname
    from pg_class c
    where c.relnamespace = 'turno'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname <> 'migrations'
  loop
    execute format('alter table %s add column next_note text check (next_note <> %L)', target.name, '');
    execute format('alter table %s add column next_number bigint not null default 7', target.name);
    execute format('create index on %s (next_number)', target.name);
  end loop;
end $$;
create table turno.next_zones (queue text primary key references turno.queues (name) on delete cascade, zone text not null);
insert into turno.next_zones (queue, zone) select name, 'here' from turno.queues;
`;

/** A database that the next version has migrated already, while this one still runs. */
let next: TestDatabase;

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), "turno-next-"));
  await cp(MIGRATIONS_DIR, folder, { recursive: true });
  const version = (await readdir(MIGRATIONS_DIR)).length + 1;
  await writeFile(join(folder, `${String(version).padStart(4, "0")}-next.sql`), NEXT);
  next = await createTestDatabase();
  await migrate(next.address, silentLogger, folder);
  await rm(folder, { recursive: true });
});
afterAll(() => next.drop());

test("the next schema is an expansion that this code accepts, and every table has grown", async () => {
  expect(findNarrowings(NEXT)).toEqual([]);
  const copy = await createTestDatabase({ copyOf: next });
  const database = openDatabase({
    address: copy.address,
    applicationName: "test",
    size: 1,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  await checkSchema(database);
  const grown = await database.query(
    "select table_name from information_schema.columns where table_schema = 'turno' and column_name = 'next_number'",
  );
  expect(grown.length).toBeGreaterThan(20);
  await database.close();
  await copy.drop();
});

// What a worker of this version does while the next one's schema is in force already.
storeContract("PostgreSQL at the next version's schema", async () =>
  openStoreUnderTest(await createTestDatabase({ copyOf: next })),
);
