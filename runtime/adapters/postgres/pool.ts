import { createHash } from "node:crypto";
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
  /** Connections besides, for `prepared`; without them it is as `query`. */
  readonly preparedSize?: number;
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
  /**
   * As `query`, for statements that run all day: each session parses and plans them once, and the plan is made of nested
   * loops over indexes whatever the tables hold, so a plan made for an empty queue serves a full one. At a few jobs a
   * statement, parsing and planning anew is two thirds of its cost. Behind a pooler they run as others do.
   */
  prepared<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
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

/** For `prepared`: nothing about a plan is left to the tables' statistics. */
const STEADY_PLANS = {
  plan_cache_mode: "force_generic_plan",
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  enable_material: "off",
  enable_sort: "off",
};
/** No such statement, there is one already, its result has changed: the session is not the one that prepared it, or not alone. */
const NOT_PREPARED: ReadonlySet<string> = new Set(["26000", "42P05", "0A000"]);

// Dates stay text; int8 is text already, and each reader converts what it needs.
pg.types.setTypeParser(pg.types.builtins.DATE, (text) => text);

/** Pools whose idle clients may die without taking the process along. */
export function openDatabase(options: PoolOptions): Database {
  const { logger, statementTimeoutMs, size, preparedSize = 0 } = options;
  const limits = {
    statement_timeout: statementTimeoutMs,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
  };
  const general = openSessions(options, { size, settings: limits });
  const steady =
    preparedSize === 0 ? null : openSessions(options, { size: preparedSize, settings: { ...limits, ...STEADY_PLANS } });
  /** Several clients share a session after all, behind a pooler that takes any setting. */
  let namesFail = false;

  const query: Database["query"] = (text, values) =>
    retryConflicts(() => general.withClient((client) => run(client)(text, values)));

  return {
    query,
    prepared: (text, values) => {
      if (steady === null) return query(text, values);
      return retryConflicts(async () => {
        try {
          return await steady.withClient((client) =>
            run(client, namesFail || steady.isPooled() ? null : nameOf(text))(text, values),
          );
        } catch (error) {
          if (namesFail || !(error instanceof RejectedError) || !NOT_PREPARED.has(error.sqlState ?? "")) throw error;
          namesFail = true;
          logger.info("prepared statements do not last here; they are sent in full", { error: describeError(error) });
          return steady.withClient((client) => run(client)(text, values));
        }
      });
    },
    transaction: (work, transactionOptions = {}) =>
      retryConflicts(() => general.withClient((client) => transact(run(client), work, transactionOptions))),
    async close() {
      await Promise.all([general.end(), steady?.end()]);
    },
  };

  async function transact<Result>(
    query: Database["query"],
    work: (query: Database["query"]) => Promise<Result>,
    { lockTimeoutMs }: TransactionOptions,
  ): Promise<Result> {
    const settings = {
      ...(general.isPooled() ? limits : {}),
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

interface Sessions {
  withClient<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result>;
  /** A pooler in transaction mode refuses settings of the session. */
  isPooled(): boolean;
  end(): Promise<void>;
}

function openSessions(
  { address, applicationName, statementTimeoutMs, logger }: PoolOptions,
  { size, settings }: { readonly size: number; readonly settings: Readonly<Record<string, string | number>> },
): Sessions {
  let isPooled = false;
  const pool = new pg.Pool({
    connectionString: address.connectionString,
    application_name: applicationName,
    max: size,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    query_timeout: statementTimeoutMs + 2_000,
    Client: sessionWith(() => (isPooled ? SESSION_SETTINGS : { ...SESSION_SETTINGS, ...settings })),
  });
  // A session may end in the instant it is given out, before anybody could listen to it; the query that follows tells.
  pool.on("connect", (client) => void client.on("error", () => {}));
  pool.on("error", (error) => logger.warn("an idle database connection was lost", { error: describeError(error) }));
  return {
    async withClient(work) {
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
    },
    isPooled: () => isPooled,
    end: () => pool.end(),
  };

  /** Whatever fails here, no statement has left. */
  async function acquire(): Promise<pg.PoolClient> {
    try {
      return await pool.connect();
    } catch (error) {
      if (!isRefusedSetting(error)) throw notConnected(error);
      if (!isPooled) {
        logger.info("a pooler takes no settings for the session; time limits are set for each transaction", {
          error: describeError(error),
        });
      }
      isPooled = true;
    }
    return pool.connect().catch((error: unknown) => {
      throw notConnected(error);
    });
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

const names = new Map<string, string>();

/** The same name is the same text, whichever version of Turno a session was shared with. */
function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = `turno-${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
    names.set(text, name);
  }
  return name;
}

function run(client: pg.PoolClient, name: string | null = null): Database["query"] {
  return async (text, values = []) => {
    try {
      const statement =
        name === null ? { text, values: values as unknown[] } : { name, text, values: values as unknown[] };
      const result = await client.query(statement);
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
