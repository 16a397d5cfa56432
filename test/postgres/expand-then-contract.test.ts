import { describe, expect, test } from "vitest";
import { MIGRATIONS_DIR, readMigrations } from "../../runtime/adapters/postgres/migration-files.ts";
import { findNarrowings } from "./expansion-rules.ts";

/** The first schema that was ever run by two versions at once; before it there was one version. */
const FIRST_SHARED = 10;
const migrations = await readMigrations(MIGRATIONS_DIR);

test("a migration only adds, so that code of the version before works on it, or is marked as a contract", () => {
  const later = migrations.filter(({ version, oldestCode }) => version > FIRST_SHARED && oldestCode === null);
  expect(later.length).toBeGreaterThan(2);
  const found = later.flatMap(({ name, text }) =>
    findNarrowings(text).map(({ rule, statement }) => `${name} ${rule}: ${statement}`),
  );
  expect(found, "add first, and take away in a later version, marked as a contract (CONTRIBUTING.md)").toEqual([]);
});

describe("the rule", () => {
  test.each([
    ["alter table turno.jobs_live drop column payload", "takes away"],
    ["alter table turno.jobs_live drop column if exists payload, add column x int", "takes away"],
    ["drop table turno.workers", "takes away"],
    ["drop index turno.jobs_runnable", "takes away"],
    ["drop function turno.ring()", "takes away"],
    ["alter table turno.workers alter column pid drop default", "takes away"],
    ["alter table turno.workers rename to processes", "renames"],
    ["alter table turno.workers rename column pid to process_id", "renames"],
    ["ALTER TABLE turno.workers\n  RENAME pid TO process_id", "renames"],
    ["alter table turno.workers alter column pid type bigint", "changes a type"],
    ["alter table turno.workers alter pid set data type text using pid::text", "changes a type"],
    ["alter table turno.workers alter column host set not null", "asks for a value"],
    ["alter table turno.workers add column zone text not null", "asks for a value"],
    ["alter table turno.workers add column a int not null default 0, add column b int not null", "asks for a value"],
    ["alter table turno.workers add constraint workers_pid check (pid > 0)", "refuses"],
    ["alter table turno.workers drop constraint workers_pkey", "refuses"],
    ["create unique index workers_host on turno.workers (host)", "refuses"],
    ["delete from turno.overlays", "throws data away"],
    ["truncate turno.overlays", "throws data away"],
    ["revoke select on turno.jobs from panel", "takes rights away"],
  ])("sees what is no expansion: %s", (statement, rule) => {
    const found = findNarrowings(`-- A comment; with a semicolon.\nselect 1;\n${statement};\n`);
    expect(found.map((narrowing) => narrowing.rule)).toEqual([expect.stringContaining(rule)]);
  });

  test.each([
    "create table turno.zones (name text not null primary key, at timestamptz not null)",
    "alter table turno.workers add column zone text",
    "alter table turno.workers add column zone text not null default ''",
    "alter table turno.workers add column zone text check (zone <> ''), add column b int not null default 0",
    "alter table turno.workers drop constraint state_known; alter table turno.workers add constraint state_known check (pid > 0 or pid is null)",
    "alter table turno.workers alter column pid drop not null",
    "create index workers_host on turno.workers (host)",
    "create table turno.zones (name text); create unique index zones_name on turno.zones (name); alter table turno.zones add column x int not null",
    "create function turno.sweep() returns void language sql as $$ delete from turno.overlays; drop table x $$",
    "-- drop table turno.workers\ninsert into turno.installation select 1",
    "update turno.queues set concurrency = null where concurrency = 0",
  ])("lets expansions through: %s", (statement) => {
    expect(findNarrowings(statement)).toEqual([]);
  });
});
