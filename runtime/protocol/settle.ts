import type { JobDefinition, PolicySpec } from "../config/objects.ts";
import { unreachable } from "../core/assert.ts";
import { MAX_STACK_BYTES, storableText } from "../core/storable.ts";
import { backoffMs, requestedWaitMs } from "./backoff.ts";
import type { AbortReason, HandlerOutcome } from "./ports/handlers.ts";
import type { AloneReason, ClaimedJob, Finish } from "./ports/jobs.ts";
import type { Random } from "./ports/surroundings.ts";
import type { TransitionReason } from "./states.ts";

const DAY_MS = 86_400_000;
/** For jobs whose type was never declared. */
const DEFAULT_RETAIN_MS = { succeeded: 7 * DAY_MS, failed: 30 * DAY_MS, cancelled: 7 * DAY_MS };

/** What is known of an execution when its handler has ended. */
export interface Settlement {
  readonly job: ClaimedJob;
  /** Null: no definition of the type is in force. */
  readonly definition: JobDefinition | null;
  readonly outcome: HandlerOutcome;
  /** The first reason for which the handler was asked to stop; null: none. */
  readonly abort: AbortReason | null;
  readonly timeoutMs: number;
  /** How long the handler ran; null: it never started. */
  readonly ranMs: number | null;
  readonly random: Random;
}

/** The part of a Finish that is a decision; the rest are facts. */
type Verdict = Pick<Finish, "outcome" | "next" | "charge" | "delayMs" | "hold"> & {
  readonly reason: TransitionReason;
  readonly error?: string;
  readonly stack?: string | null;
};

/**
 * How an execution ends: state, budget and wait. Pure. That a cancel request turns everything but a success into
 * Cancelled is decided once more by the store, which alone knows of requests that came in the meantime.
 */
export function settle(settlement: Settlement): Finish {
  const { job, definition, outcome, ranMs } = settlement;
  const { error = null, stack = null, ...verdict } = decide(settlement);
  const succeeded = verdict.next === "Succeeded" && outcome.kind === "returned";
  return {
    jobId: job.id,
    token: job.token,
    ...verdict,
    ...(job.concurrencyKey == null ? {} : { concurrencyKey: job.concurrencyKey }),
    ...(succeeded && outcome.children !== undefined ? { children: outcome.children } : {}),
    result: succeeded ? outcome.result : null,
    resultError: succeeded ? outcome.resultError : null,
    error: error === null ? null : storableText(error),
    stack: stack === null ? null : storableText(stack, MAX_STACK_BYTES),
    ranMs,
    retainMs: retention(definition),
    bundleHash: definition?.bundleHash ?? null,
    revision: job.revision,
  };
}

/** Suspected of killing its worker, or never seen to end: it runs in a process of its own. Null: among others. */
export function whyAlone(job: ClaimedJob, policy: PolicySpec): AloneReason | null {
  if (job.lost > 0) return "lost";
  if (job.lostUnstarted >= policy.maxLostUnstarted) return "lost-unstarted";
  return job.returns >= policy.maxReturns ? "returned" : null;
}

function decide(settlement: Settlement): Verdict {
  const { outcome, abort, timeoutMs } = settlement;
  // A time-out stands whatever the handler still does; the late result is not taken.
  if (abort === "time-out") {
    const error = `timed out after ${timeoutMs} ms`;
    return fail(settlement, {
      outcome: "timed-out",
      error,
      stack: outcome.kind === "threw" ? outcome.error.stack : null,
    });
  }
  if (outcome.kind === "returned") return end("succeeded", "Succeeded", "finished");
  if (abort === "cancelled") return end("cancelled", "Cancelled", "cancelled");
  switch (outcome.kind) {
    case "snoozed":
      return snooze(outcome.forMs);
    case "threw":
      // Asked to stop for a reason that is not the job's: whatever it threw, it pays nothing.
      return abort === null ? fail(settlement, failure(outcome.error)) : giveBack(abort);
    case "cut-off":
    case "neighbour-ended":
      return giveBack(abort);
    case "crashed":
      return abort === null ? loseWorker(settlement, outcome.detail) : giveBack(abort);
    case "unloadable":
      return { ...giveBack(null), reason: "held", hold: "no-handler", error: outcome.detail };
    default:
      return unreachable(outcome);
  }
}

function end(
  outcome: "succeeded" | "cancelled" | "failed" | "timed-out",
  next: Finish["next"],
  reason: TransitionReason,
): Verdict {
  return { outcome, next, reason, charge: null, delayMs: 0, hold: null };
}

/** Back to its place in the queue; a return by shutdown is counted, so that a job which never gets done is noticed. */
function giveBack(abort: AbortReason | null): Verdict {
  const charge = abort === "shutdown" ? "return" : null;
  return { outcome: "returned", next: "Scheduled", reason: "returned", charge, delayMs: 0, hold: null };
}

/** As asked for, and only bounded by what was accepted from the handler; the row's budgets stay as they are. */
function snooze(delayMs: number): Verdict {
  return { outcome: "snoozed", next: "Scheduled", reason: "snoozed", charge: null, delayMs, hold: null };
}

interface Failure {
  readonly outcome: "failed" | "timed-out";
  readonly error: string;
  readonly stack: string | null;
  readonly permanent?: boolean;
  readonly retryAfterMs?: number | null;
}

function failure(error: (HandlerOutcome & { kind: "threw" })["error"]): Failure {
  const message = error.name === "Error" ? error.message : `${error.name}: ${error.message}`;
  return { ...error, outcome: "failed", error: message };
}

function fail({ job, definition, random }: Settlement, failure: Failure): Verdict {
  const { outcome, error, stack } = failure;
  const policy = definition?.policy;
  const failures = job.failures + 1;
  const maxAttempts = job.maxAttempts ?? policy?.retry.maxAttempts ?? 1;
  if (failure.permanent === true || policy === undefined || failures >= maxAttempts) {
    return { ...end(outcome, "Failed", "failed"), charge: "failure", error, stack };
  }
  const { backoff } = policy.retry;
  const delayMs = requestedWaitMs(backoff, failure.retryAfterMs ?? null) ?? backoffMs(backoff, failures, random);
  return { outcome, next: "Scheduled", reason: "retry", charge: "failure", delayMs, hold: null, error, stack };
}

/** Its thread or process died under it. It waits with jitter, so that jobs which fell together do not travel together. */
function loseWorker({ job, definition, random }: Settlement, error: string): Verdict {
  const lost = job.lost + 1;
  const policy = definition?.policy;
  if (policy === undefined || lost >= policy.maxLost) {
    return { outcome: "lost", next: "Failed", reason: "worker lost", charge: "lost", delayMs: 0, hold: null, error };
  }
  const delayMs = backoffMs(policy.retry.backoff, lost, random);
  return { outcome: "lost", next: "Scheduled", reason: "worker lost", charge: "lost", delayMs, hold: null, error };
}

const retentions = new WeakMap<JobDefinition, Finish["retainMs"]>();

/** One object a definition, not one a job. */
function retention(definition: JobDefinition | null): Finish["retainMs"] {
  if (definition === null) return DEFAULT_RETAIN_MS;
  let retainMs = retentions.get(definition);
  if (retainMs === undefined) {
    const { succeededMs, failedMs, cancelledMs } = definition.retention;
    retainMs = { succeeded: succeededMs, failed: failedMs, cancelled: cancelledMs };
    retentions.set(definition, retainMs);
  }
  return retainMs;
}
