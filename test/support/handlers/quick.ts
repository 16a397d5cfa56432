import { setTimeout as wait } from "node:timers/promises";
import { defineHandler } from "turno";

export default defineHandler(async () => {
  await wait(5);
  return null;
});
