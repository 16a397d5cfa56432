import pg from "pg";

/** The server ends with the run: that it ends a session which nobody uses any more is no failure. */
export function openPool(url) {
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  pool.on("error", () => {});
  return pool;
}
