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

export interface TransactionOptions {
  /** Milliseconds that one of its statements may wait for a lock (then SQLSTATE 55P03); otherwise as long as it may take. */
  readonly lockTimeoutMs?: number;
}

/** Runs one statement, or several in one transaction; errors come as RejectedError or UnknownOutcomeError. */
export interface Database {
  query<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  transaction<Result>(
    work: (query: Database["query"]) => Promise<Result>,
    options?: TransactionOptions,
  ): Promise<Result>;
  close(): Promise<void>;
}

/** Serialization failure and deadlock detected. */
const CONFLICTS: ReadonlySet<string> = new Set(["40001", "40P01"]);
const CONFLICT_RETRIES = 5;
const IDLE_IN_TRANSACTION_MS = 30_000;
/**
 * How times and dates are written must not depend on the server's, the database's or the role's defaults. PgBouncer in
 * transaction mode keeps these two for each of its clients.
 */
const SESSION_SETTINGS = { DateStyle: "ISO, MDY", TimeZone: "UTC" };

// Dates stay text; int8 is text already, and each reader converts what it needs.
pg.types.setTypeParser(pg.types.builtins.DATE, (text) => text);

/** A pool whose idle clients may die without taking the process along. No statement is ever named. */
export function openDatabase(options: PoolOptions): Database {
  const { logger, statementTimeoutMs } = options;
  const limits = {
    statement_timeout: statementTimeoutMs,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
  };
  /** A pooler in transaction mode refuses limits of the session; they are set in each transaction then. */
  let isPooled = false;
  const pool = new pg.Pool({
    connectionString: options.address.connectionString,
    application_name: options.applicationName,
    max: options.size,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    query_timeout: statementTimeoutMs + 2_000,
    Client: sessionWith(() => (isPooled ? SESSION_SETTINGS : { ...SESSION_SETTINGS, ...limits })),
  });
  // A session may end in the instant it is given out, before anybody could listen to it; the query that follows tells.
  pool.on("connect", (client) => void client.on("error", () => {}));
  pool.on("error", (error) => logger.warn("an idle database connection was lost", { error: describeError(error) }));

  return {
    query: (text, values) => retryConflicts(() => withClient((client) => run(client)(text, values))),
    transaction: (work, transactionOptions = {}) =>
      retryConflicts(() => withClient((client) => transact(run(client), work, transactionOptions))),
    close: () => pool.end(),
  };

  async function withClient<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
    const client = await acquire();
    let broken = false;
    try {
      return await work(client);
    } catch (error) {
      broken = error instanceof UnknownOutcomeError;
      throw error;
    } finally {
      client.release(broken);
    }
  }

  /** Whatever fails here, no statement has left. */
  async function acquire(): Promise<pg.PoolClient> {
    try {
      return await pool.connect();
    } catch (error) {
      if (!isRefusedSetting(error)) throw notConnected(error);
      if (!isPooled) {
        logger.info("a pooler takes no time limits for the session; they are set for each transaction", {
          error: describeError(error),
        });
      }
      isPooled = true;
    }
    return pool.connect().catch((error: unknown) => {
      throw notConnected(error);
    });
  }

  async function transact<Result>(
    query: Database["query"],
    work: (query: Database["query"]) => Promise<Result>,
    { lockTimeoutMs }: TransactionOptions,
  ): Promise<Result> {
    const settings = {
      ...(isPooled ? limits : {}),
      ...(lockTimeoutMs === undefined ? {} : { lock_timeout: lockTimeoutMs }),
    };
    const changes = Object.entries(settings).map(([name, ms]) => `; set local ${name} = ${ms}`);
    try {
      await query(`begin${changes.join("")}`);
      const result = await work(query);
      await query("commit");
      return result;
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError)) await query("rollback");
      throw error;
    }
  }
}

/** What pg keeps to itself: the startup message, the one place where a session's settings cost no round trip. */
interface StartupMessage {
  getStartupConf(): Record<string, string>;
}

function sessionWith(settings: () => Readonly<Record<string, string | number>>): new () => pg.Client {
  const { getStartupConf } = pg.Client.prototype as unknown as StartupMessage;
  return class extends pg.Client {
    getStartupConf(): Record<string, string> {
      const own = Object.entries(settings()).map(([name, value]) => [name, String(value)]);
      return { ...getStartupConf.call(this as unknown as StartupMessage), ...Object.fromEntries(own) };
    }
  };
}

function run(client: pg.PoolClient): Database["query"] {
  return async (text, values = []) => {
    try {
      const result = await client.query(text, values as unknown[]);
      return result.rows;
    } catch (error) {
      throw classify(error);
    }
  };
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
  return new UnknownOutcomeError(`the connection to PostgreSQL was lost: ${message}`, { cause: error });
}

function notConnected(error: unknown): RejectedError {
  const sqlState = sqlStateOf(error);
  return new RejectedError(`PostgreSQL did not answer: ${describeError(error)}`, {
    cause: error,
    ...(sqlState === null ? {} : { sqlState }),
  });
}

/** PgBouncer's refusal of a session that asks for more than it keeps apart (its setting ignore_startup_parameters). */
function isRefusedSetting(error: unknown): boolean {
  return sqlStateOf(error) === "08P01" && describeError(error).includes("unsupported startup parameter");
}

/** Only what PostgreSQL or a pooler has said: a system's code such as EPIPE looks like an SQLSTATE. */
function sqlStateOf(error: unknown): string | null {
  return error instanceof pg.DatabaseError ? (error.code ?? null) : null;
}

/** A lock was not to be had in the time that was given for it. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof RejectedError && error.sqlState === "55P03";
}
