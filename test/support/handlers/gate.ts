import { existsSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { defineHandler } from "turno";

/** Waits for its file and for nothing else, like a program that hangs. */
export default defineHandler<{ until: string }>(async (payload, ctx) => {
  while (!existsSync(payload.until)) await wait(20);
  return { fence: String(ctx.fence) };
});
