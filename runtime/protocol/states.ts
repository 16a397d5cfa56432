import { assert } from "../core/assert.ts";

/** Exactly these six, in the API, the database and the panel. */
export const JOB_STATES = ["Scheduled", "Enqueued", "Processing", "Succeeded", "Failed", "Cancelled"] as const;
export type JobState = (typeof JOB_STATES)[number];

/** States in which a job rests; its row lies in the final partition. */
export const FINAL_STATES = ["Succeeded", "Failed", "Cancelled"] as const;
export type FinalState = (typeof FINAL_STATES)[number];

/** Why a Scheduled job waits for something other than time; at most one, the first that applies. */
export const HOLDS = ["key", "breaker", "no-handler", "overlap"] as const;
export type Hold = (typeof HOLDS)[number];

/** Reasons as they stand in the timeline. */
// biome-ignore format: a table is read by its columns
export const TRANSITIONS = [
  // from          to            why                 charge
  [null,          "Scheduled",  "created",          null],
  [null,          "Enqueued",   "created",          null],
  ["Scheduled",   "Enqueued",   "due",              null],
  ["Scheduled",   "Enqueued",   "hold released",    null],
  ["Scheduled",   "Cancelled",  "cancelled",        null],
  ["Enqueued",    "Processing", "claimed",          null],
  ["Enqueued",    "Scheduled",  "held",             null],
  ["Enqueued",    "Scheduled",  "deferred",         null],
  ["Enqueued",    "Cancelled",  "cancelled",        null],
  ["Processing",  "Succeeded",  "finished",         null],
  ["Processing",  "Failed",     "failed",           "failure"],
  ["Processing",  "Failed",     "worker lost",      "lost"],
  ["Processing",  "Cancelled",  "cancelled",        null],
  ["Processing",  "Scheduled",  "retry",            "failure"],
  ["Processing",  "Scheduled",  "snoozed",          null],
  ["Processing",  "Scheduled",  "worker lost",      "lost"],
  ["Processing",  "Scheduled",  "returned",         null],
  ["Processing",  "Scheduled",  "held",             null],
  ["Processing",  "Enqueued",   "worker lost",      "lost"],
  ["Failed",      "Enqueued",   "requeued",         "generation"],
  ["Cancelled",   "Enqueued",   "requeued",         "generation"],
  ["Succeeded",   "Enqueued",   "requeued",         "generation"],
] as const satisfies readonly Transition[];

/** From, to, the reason shown in the timeline, and the counter it raises. */
export type Transition = readonly [JobState | null, JobState, string, "failure" | "lost" | "generation" | null];
export type TransitionReason = (typeof TRANSITIONS)[number][2];

export function isFinal(state: JobState): state is FinalState {
  return state === "Succeeded" || state === "Failed" || state === "Cancelled";
}

/** Whether the table has a row from one state to the other. */
export function mayMove(move: { readonly from: JobState | null; readonly to: JobState }): boolean {
  return TRANSITIONS.some(([from, to]) => from === move.from && to === move.to);
}

/** Stops the program when code asks for a move that the table does not have. */
export function assertMove(move: { readonly from: JobState | null; readonly to: JobState }): void {
  assert(mayMove(move), `no transition from ${move.from ?? "(new)"} to ${move.to}`);
}
