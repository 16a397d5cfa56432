import { defineHandler } from "turno";

/** Answers when it started, by the machine's monotonic clock: nanoseconds as text. */
export default defineHandler(() => process.hrtime.bigint().toString());
