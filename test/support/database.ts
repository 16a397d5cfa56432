import { randomBytes } from "node:crypto";
import pg from "pg";
import { inject } from "vitest";

export interface TestDatabase {
  readonly address: { readonly connectionString: string };
  /** Ends every session of the database and drops it. */
  drop(): Promise<void>;
}

/** A database of its own on the run's PostgreSQL: migrated by default, or empty, or a copy of one without sessions. About 40 ms. */
export async function createTestDatabase(
  options: { readonly migrated?: boolean; readonly copyOf?: TestDatabase } = {},
): Promise<TestDatabase> {
  const { connectionString, template } = inject("postgres");
  const name = `test_${randomBytes(8).toString("hex")}`;
  const original =
    options.copyOf === undefined ? template : new URL(options.copyOf.address.connectionString).pathname.slice(1);
  const source = (options.migrated ?? true) ? original : "template0";
  await runStatement(connectionString, `create database ${name} template ${source} strategy file_copy`);
  const url = new URL(connectionString);
  url.pathname = `/${name}`;
  return {
    address: { connectionString: url.href },
    drop: () => runStatement(connectionString, `drop database if exists ${name} with (force)`),
  };
}

async function runStatement(connectionString: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

declare module "vitest" {
  export interface ProvidedContext {
    /** The run's server and the name of its migrated template database. */
    postgres: { connectionString: string; template: string };
  }
}
