import { appendFileSync, existsSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { defineHandler } from "turno";

/** Writes down that it ran, and whether another one was inside at the same time when it must not be. */
export default defineHandler<{ ledger: string; ms?: number; room?: string }>(async ({ ledger, ms = 5, room }, ctx) => {
  const line = (word: string): void => appendFileSync(ledger, `${word} ${ctx.jobId} ${ctx.fence}\n`);
  line("start");
  if (room !== undefined) {
    if (existsSync(room)) line("overlap");
    writeFileSync(room, ctx.jobId);
  }
  await wait(ms, undefined, { signal: ctx.signal });
  if (room !== undefined) rmSync(room, { force: true });
  line("end");
  return { fence: String(ctx.fence) };
});
