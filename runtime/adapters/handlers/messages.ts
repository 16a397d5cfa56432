import type { JsonObject } from "../../core/json.ts";
import type { AbortReason, HandlerOutcome } from "../../protocol/ports/handlers.ts";
import type { EnqueueRequest } from "./enqueue-request.ts";

/**
 * What host and realm (a thread, a process or the main thread) say to each other. Messages are tuples of plain
 * values and travel in batches: a hop costs about as much as ten jobs' worth of handler calls.
 */
export type ToRealm =
  /** Comes before the first run of a definition in this realm. */
  | readonly ["define", definition: RealmDefinition]
  /** All definitions of before are no longer referred to. */
  | readonly ["forget"]
  | RunMessage
  | readonly ["abort", runId: number, reason: AbortReason]
  | readonly ["enqueued", runId: number, call: number, answer: EnqueueAnswer];

/** The new job's id, or why there is to be none. */
export type EnqueueAnswer = { readonly id: string } | { readonly problem: string };

export type RunMessage = readonly [
  "run",
  runId: number,
  definitionId: number,
  jobId: string,
  /** JSON text; parsed once a call of the handler, so that no call sees what another changed. */
  payload: string,
  attempt: number,
  execution: number,
  fence: bigint,
  deadlineMs: number,
  schedule: { readonly name: string; readonly firedForMs: number; readonly lateByMs: number } | null,
  revision: number | null,
];

export type FromRealm =
  | RunReport
  | readonly ["log", jobId: string, type: string, level: LogLevel, message: string, fields: string | null];

/** What a realm says of one of its runs. */
export type RunReport =
  | readonly ["done", runId: number, outcome: HandlerOutcome]
  /** The usual end, without the object around it. */
  | readonly ["returned", runId: number, result: string | null]
  | readonly ["progress", runId: number, percent: number, message: string | null]
  | readonly ["enqueue", runId: number, call: number, request: EnqueueRequest]
  /** The handler is called once more in the same attempt: what it enqueued before counts for nothing. */
  | readonly ["restarted", runId: number];

export type LogLevel = "info" | "warn" | "error";

/** A job definition as realms need it. */
export interface RealmDefinition {
  readonly id: number;
  readonly type: string;
  readonly settings: JsonObject;
  readonly bundleHash: string;
  /** file: URL of the bundle on this machine. */
  readonly bundleUrl: string;
  readonly immediateRetry: { readonly attempts: number; readonly initialMs: number };
}

/** What a realm is given at its birth. */
export interface RealmStart {
  /** One 32-bit number: the id of the last run that began, readable while the realm's event loop is blocked. */
  readonly lastBegun: SharedArrayBuffer | null;
  /** URL of a bundle: the thread is there only to say whether it loads. */
  readonly probe?: string;
}

/** One run, ready to be given to a thread or process. */
export interface RealmWork {
  readonly jobId: string;
  /** Path of the handler's file; the same handler under another bundle hash is a replacement. */
  readonly handler: string;
  /** Sent once per realm. */
  readonly definition: RealmDefinition;
  /** When a process of its own has to be gone; `RealmRun.keepUntil` moves it. */
  readonly keepUntilMs: number;
  /** Completes the run's message with the number the realm knows it by. */
  message(runId: number): ToRealm;
  onProgress(percent: number, message: string | null): void;
  enqueue(call: number, request: EnqueueRequest, answer: (answer: EnqueueAnswer) => void): void;
  restarted(): void;
  settle(outcome: HandlerOutcome): void;
}

export interface RealmRun {
  abort(reason: AbortReason): void;
  /** Ends the thread or process; the outcome comes when it is gone. */
  end(): void;
  keepUntil?(monotonicMs: number): void;
}
