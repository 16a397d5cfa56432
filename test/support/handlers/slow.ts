import { existsSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { defineHandler } from "turno";

/** Runs until its file exists, so that the test decides how long it takes. */
export default defineHandler<{ until: string }>(async (payload, ctx) => {
  while (!existsSync(payload.until)) await wait(20, undefined, { signal: ctx.signal });
  return { word: "first" };
});
