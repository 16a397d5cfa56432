import pg from "pg";
import type { Database, DatabaseAddress } from "../../runtime/adapters/postgres/pool.ts";

/** Statements of a store that have run and are not committed yet: time stands still between two lines of another. */
export interface HeldTransaction {
  /** For the stores; its transactions are part of this one. */
  readonly database: Database;
  commit(): Promise<void>;
  /** As when its process dies. */
  rollback(): Promise<void>;
}

export async function holdTransaction(address: DatabaseAddress): Promise<HeldTransaction> {
  const client = new pg.Client({ connectionString: address.connectionString });
  await client.connect();
  await client.query("begin");
  const query: Database["query"] = async (text, values = []) => (await client.query(text, [...values])).rows;
  return {
    database: { query, prepared: query, transaction: (work) => work(query), close: async () => {} },
    async commit() {
      await client.query("commit");
      await client.end();
    },
    async rollback() {
      await client.query("rollback");
      await client.end();
    },
  };
}

/** Resolves when so many statements in the database wait for a lock. */
export async function untilBlocked(database: Pick<Database, "query">, statements = 1): Promise<void> {
  for (;;) {
    const [row] = await database.query<{ waiting: number }>(
      "select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    if ((row?.waiting ?? 0) >= statements) return;
  }
}

/** The first has run and is not committed when the second starts; it commits once the second waits for it, or is over. */
export async function runBehind<First, Second>(
  at: { readonly address: DatabaseAddress; readonly database: Pick<Database, "query"> },
  first: (held: Database) => Promise<First>,
  second: () => Promise<Second>,
): Promise<readonly [First, Second]> {
  const held = await holdTransaction(at.address);
  const before = await first(held.database);
  const running = second();
  const settled = running.then(
    () => true,
    () => true,
  );
  await Promise.race([settled, untilBlocked(at.database)]);
  await held.commit();
  return [before, await running];
}
