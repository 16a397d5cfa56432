import { openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { threadId } from "node:worker_threads";
import pg from "pg";
import { defineHandler, PermanentError } from "turno";

interface Work {
  /** Null: made by a schedule. */
  readonly tag?: string;
  readonly ms: number;
  /** Attempts that throw before one succeeds; -1: fails for good. */
  readonly fail?: number;
  readonly key?: string;
}

const TICK_MS = 50;
/** Changed by every rolling restart, so that the code has another hash. */
export const VERSION = 0;

let file: number | null = null;
let sink: pg.Pool | null = null;

export default defineHandler<Work>(async ({ tag, ms, fail = 0, key }, ctx) => {
  const ledger = String(ctx.settings.ledger);
  const fence = String(ctx.fence);
  const note = (e: string, more: object = {}): void => {
    file ??= openSync(join(ledger, `${process.pid}-${threadId}.ndjson`), "a");
    const at = Number(process.hrtime.bigint() / 1_000n);
    writeSync(file, `${JSON.stringify({ e, at, job: ctx.jobId, fence, pid: process.pid, ...more })}\n`);
  };
  const { attempt, execution } = ctx;
  note("begin", { tag: tag ?? null, key: key ?? null, ppid: process.ppid, attempt, execution, version: VERSION });
  const ticks = setInterval(() => note("tick"), TICK_MS);
  try {
    await wait(ms, undefined, { signal: ctx.signal });
    if (fail < 0) {
      note("throw");
      throw new PermanentError("meant to fail for good");
    }
    if (attempt <= fail) {
      note("throw");
      throw new Error(`meant to fail ${fail} times`);
    }
    note((await offerEffect(String(ctx.settings.sink), ctx.jobId, fence)) ? "effect" : "refused");
    note("end");
    return { fence };
  } catch (error) {
    if (ctx.signal.aborted) note("abort");
    throw error;
  } finally {
    clearInterval(ticks);
  }
});

/** Offers an effect to the store that compares tokens; false: it has seen a newer one. */
async function offerEffect(address: string, job: string, fence: string): Promise<boolean> {
  sink ??= openSink(address);
  const { rows } = await sink.query<{ accepted: boolean }>("select sink.offer($1, $2) as accepted", [job, fence]);
  return rows[0]?.accepted === true;
}

function openSink(address: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: address, application_name: "chaos-handler", max: 3 });
  pool.on("error", () => {});
  return pool;
}
