import { readdir, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import pg from "pg";
import { defineHandler, PermanentError } from "turno";
import { type QueueMinute, renderCsv, renderPage, sumBy } from "./lib/execution-report.ts";
import { folderFrom, projectRoot, writeWhole } from "./lib/folders.ts";

interface Payload {
  /** How far the report looks back. */
  readonly hours?: number;
}

interface Settings {
  /** Reports that are kept; older ones are removed. */
  readonly keep?: number;
}

/** Ended executions by minute and queue: what the leader has folded, and what it has not yet. */
const MINUTES = `
  select minute, queue, sum(succeeded) as succeeded, sum(failed) as failed, sum(cancelled) as cancelled,
         sum(executions) as executions, sum(ran_ms) as ran_ms
  from (
    select minute, queue, succeeded, failed, cancelled, executions, ran_ms
    from turno.minute_statistics
    where minute >= $1
    union all
    select date_trunc('minute', at), queue, succeeded, failed, cancelled, executions, ran_ms
    from turno.counter_deltas
    where at >= $1
  ) as ended
  group by minute, queue
  having sum(succeeded) + sum(failed) + sum(cancelled) + sum(executions) > 0
  order by minute, queue`;

/** Writes a CSV and a page with a chart of the last hours' executions, out of Turno's own statistics. */
export default defineHandler<Payload>(async ({ hours = 6 }, ctx) => {
  const to = ctx.schedule?.firedFor ?? new Date();
  const from = new Date(to.getTime() - hours * 3_600_000);
  const minutes = await loadMinutes(from);
  await ctx.progress(50, `${minutes.length} rows`);

  const folder = folderFrom("TURNO_REPORTS_DIR", ".turno/reports");
  // The same job writes the same files in every attempt.
  const stamp = to.toISOString().slice(0, 16).replaceAll(":", "");
  const name = `executions-${stamp}Z-${ctx.jobId.slice(-8)}`;
  const csv = join(folder, `${name}.csv`);
  const html = join(folder, `${name}.html`);
  await writeWhole(csv, renderCsv(minutes));
  await writeWhole(html, renderPage({ minutes, from, to }));
  await removeOld(folder, (ctx.settings as Settings).keep ?? 50);
  return {
    html: relative(projectRoot(), html),
    csv: relative(projectRoot(), csv),
    from: from.toISOString(),
    to: to.toISOString(),
    rows: minutes.length,
    succeeded: sumBy(minutes, "succeeded"),
    failed: sumBy(minutes, "failed"),
    cancelled: sumBy(minutes, "cancelled"),
  };
});

async function loadMinutes(from: Date): Promise<readonly QueueMinute[]> {
  const connectionString = process.env.TURNO_DATABASE_URL;
  if (connectionString === undefined) {
    throw new PermanentError("expected TURNO_DATABASE_URL, which Turno sets in handler threads (isolation: thread)");
  }
  const client = new pg.Client({
    connectionString,
    application_name: "report.generate",
    connectionTimeoutMillis: 5_000,
    statement_timeout: 15_000,
    query_timeout: 20_000,
  });
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(MINUTES, [from]);
    return rows.map((row) => ({
      minute: row.minute as Date,
      queue: String(row.queue),
      succeeded: Number(row.succeeded),
      failed: Number(row.failed),
      cancelled: Number(row.cancelled),
      executions: Number(row.executions),
      ranMs: Number(row.ran_ms),
    }));
  } finally {
    await client.end();
  }
}

async function removeOld(folder: string, keep: number): Promise<void> {
  const reports = (await readdir(folder)).filter((name) => /^executions-.*\.html$/.test(name)).sort();
  for (const name of reports.slice(0, Math.max(0, reports.length - keep))) {
    await rm(join(folder, name), { force: true });
    await rm(join(folder, name.replace(/\.html$/, ".csv")), { force: true });
  }
}
