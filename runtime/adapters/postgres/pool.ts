import pg from "pg";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { RejectedError, UnknownOutcomeError } from "../../protocol/ports/errors.ts";

/** How to reach PostgreSQL: a URL, or the embedded server's socket folder. */
export interface DatabaseAddress {
  readonly connectionString: string;
}

export interface PoolOptions {
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  readonly size: number;
  /** Milliseconds a statement may take, on the server and as seen from here. */
  readonly statementTimeoutMs: number;
  readonly logger: Logger;
}

/** Runs one statement, or several in one transaction; errors come as RejectedError or UnknownOutcomeError. */
export interface Database {
  query<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  transaction<Result>(work: (query: Database["query"]) => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
}

/** Serialization failure and deadlock detected. */
const CONFLICTS: ReadonlySet<string> = new Set(["40001", "40P01"]);
const CONFLICT_RETRIES = 5;

// bigint and numeric columns as bigint would surprise JSON; int8 stays text and each reader converts what it needs.
pg.types.setTypeParser(pg.types.builtins.DATE, (text) => text);

/** A pool whose idle clients may die without taking the process along. */
export function openDatabase(options: PoolOptions): Database {
  const pool = new pg.Pool({
    connectionString: options.address.connectionString,
    application_name: options.applicationName,
    max: options.size,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    statement_timeout: options.statementTimeoutMs,
    query_timeout: options.statementTimeoutMs + 2_000,
    idle_in_transaction_session_timeout: 30_000,
  });
  pool.on("error", (error) =>
    options.logger.warn("an idle database connection was lost", { error: describeError(error) }),
  );
  const run =
    (client: pg.Pool | pg.PoolClient): Database["query"] =>
    async (text, values = []) => {
      try {
        const result = await client.query(text, values as unknown[]);
        return result.rows;
      } catch (error) {
        throw classify(error);
      }
    };
  return {
    query: (text, values) => retryConflicts(() => run(pool)(text, values)),
    transaction: (work) => retryConflicts(() => transact(work)),
    close: () => pool.end(),
  };

  async function transact<Result>(work: (query: Database["query"]) => Promise<Result>): Promise<Result> {
    const client = await pool.connect().catch((error: unknown) => {
      throw new RejectedError(`PostgreSQL did not answer: ${describeError(error)}`, { cause: error });
    });
    let broken: unknown = null;
    // pg emits errors on a checked-out client as well; the failing query reports the same error.
    const onError = (error: Error) => {
      broken = error;
    };
    client.on("error", onError);
    const query = run(client);
    try {
      await query("begin");
      const result = await work(query);
      await query("commit");
      return result;
    } catch (error) {
      if (broken === null) await client.query("rollback").catch((cause: unknown) => (broken = cause));
      throw error;
    } finally {
      client.off("error", onError);
      client.release(broken !== null);
    }
  }
}

/** Deadlock victims and serialization failures were certainly not applied, so they simply run again. */
async function retryConflicts<Result>(attempt: () => Promise<Result>): Promise<Result> {
  for (let left = CONFLICT_RETRIES; ; left -= 1) {
    try {
      return await attempt();
    } catch (error) {
      if (left === 0 || !(error instanceof RejectedError) || error.sqlState === null || !CONFLICTS.has(error.sqlState))
        throw error;
    }
  }
}

/** PostgreSQL answered with an error: nothing was applied. No answer: it may have been. */
function classify(error: unknown): RejectedError | UnknownOutcomeError {
  const sqlState = sqlStateOf(error);
  const message = describeError(error);
  // Class 57P (shutdown) and 08 (connection) come when the session ends, perhaps after the commit.
  if (sqlState !== null && !sqlState.startsWith("57P") && !sqlState.startsWith("08")) {
    return new RejectedError(`PostgreSQL refused a statement: ${message}`, { cause: error, sqlState });
  }
  if (isConnectFailure(error)) return new RejectedError(`PostgreSQL did not answer: ${message}`, { cause: error });
  return new UnknownOutcomeError(`the connection to PostgreSQL was lost: ${message}`, { cause: error });
}

function sqlStateOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) ? code : null;
}

/** The statement never left: no connection could be made. */
function isConnectFailure(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return (
    code === "ECONNREFUSED" ||
    code === "ENOENT" ||
    code === "57P03" ||
    (typeof message === "string" && message.includes("timeout exceeded when trying to connect"))
  );
}
