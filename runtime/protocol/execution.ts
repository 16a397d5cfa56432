import type { JobDefinition } from "../config/objects.ts";
import type { DispatchToken, JobId } from "../core/ids.ts";
import type { AbortReason, HandlerRun } from "./ports/handlers.ts";
import type { ClaimedJob, Ownership } from "./ports/jobs.ts";

/** `waiting`: claimed, not started. `finishing`: the handler has ended, the final write is on its way. */
export type ExecutionPhase = "waiting" | "running" | "finishing" | "over";

/**
 * One claimed job on this worker, from the claim to its final write. Times are monotonic milliseconds of this process.
 */
export class Execution implements Ownership {
  readonly job: ClaimedJob;
  readonly jobId: JobId;
  readonly token: DispatchToken;
  /** When the claim's answer arrived. */
  readonly claimedMs: number;
  /** Taken before the claim or the last successful renewal was sent: the lease is certain for its length from here. */
  confirmedMs: number;
  phase: ExecutionPhase = "waiting";
  definition: JobDefinition | null = null;
  run: HandlerRun | null = null;
  startedMs: number | null = null;
  timeoutMs = 0;
  /** The first reason to stop; later ones change nothing. */
  abortReason: AbortReason | null = null;
  abortedMs: number | null = null;
  /** When `end()` was called. */
  cutOffMs: number | null = null;
  /** It was to be ended long ago, and has not. */
  runsOn = false;
  /** The row shows the start. */
  startWritten: boolean;
  /** Not written yet. */
  progress: { readonly percent: number; readonly message: string | null } | null = null;

  constructor(job: ClaimedJob, claimSentMs: number, claimedMs: number = claimSentMs) {
    this.job = job;
    this.jobId = job.id;
    this.token = job.token;
    this.claimedMs = claimedMs;
    this.confirmedMs = claimSentMs;
    this.startWritten = job.recovered;
  }

  /** Asks the handler to stop, once. False: it has been asked before, or has ended. */
  abort(reason: AbortReason, nowMs: number): boolean {
    if (this.abortReason !== null || this.phase === "finishing" || this.phase === "over") return false;
    this.abortReason = reason;
    this.abortedMs = nowMs;
    this.run?.abort(reason);
    return true;
  }
}
