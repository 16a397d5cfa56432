import type { JobDefinition, ScheduleSpec } from "../../runtime/config/objects.ts";
import type { Finish, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import type { WorkerCondition } from "../../runtime/protocol/ports/workers.ts";

const DAY_MS = 86_400_000;

/** A job type with the defaults of the built-in policy; override what a test is about. */
export function jobDefinition(options: Partial<JobDefinition> & { readonly type: string }): JobDefinition {
  return {
    handler: `${options.type}.ts`,
    bundleHash: `sha256:${options.type}`,
    queue: "default",
    timeoutMs: 600_000,
    isolation: "thread",
    settings: {},
    payloadSchema: null,
    retention: { succeededMs: 7 * DAY_MS, cancelledMs: 7 * DAY_MS, failedMs: 30 * DAY_MS },
    policy: {
      immediateRetry: { attempts: 0, initialMs: 500 },
      retry: { maxAttempts: 5, backoff: { type: "exponential", initialMs: 15_000, maxMs: 900_000, jitter: 0.2 } },
      timeoutMs: 600_000,
      maxLost: 3,
      maxLostUnstarted: 20,
      maxReturns: 20,
    },
    ...options,
  };
}

/** A schedule that fires every minute; override what a test is about. */
export function scheduleSpec(options: Partial<ScheduleSpec> & { readonly job: string }): ScheduleSpec {
  return {
    timing: { kind: "cron", expression: "* * * * *", timeZone: "UTC" },
    timeZone: "UTC",
    payload: {},
    concurrencyPolicy: "Forbid",
    misfirePolicy: "latest",
    runOnStart: false,
    suspend: false,
    ...options,
  };
}

/** A success of an execution; override what a test is about. */
export function finishOf(owned: Ownership & Pick<Finish, "concurrencyKey">, options: Partial<Finish> = {}): Finish {
  return {
    ...(owned.concurrencyKey == null ? {} : { concurrencyKey: owned.concurrencyKey }),
    jobId: owned.jobId,
    token: owned.token,
    outcome: "succeeded",
    next: "Succeeded",
    reason: "finished",
    charge: null,
    delayMs: 0,
    hold: null,
    result: null,
    resultError: null,
    error: null,
    stack: null,
    ranMs: 5,
    retainMs: { succeeded: 7 * DAY_MS, failed: 30 * DAY_MS, cancelled: 7 * DAY_MS },
    bundleHash: null,
    revision: null,
    ...options,
  };
}

/** A failure that is tried again. */
export function retryOf(owned: Ownership & Pick<Finish, "concurrencyKey">, options: Partial<Finish> = {}): Finish {
  return finishOf(owned, {
    outcome: "failed",
    next: "Scheduled",
    reason: "retry",
    charge: "failure",
    delayMs: 15_000,
    error: "boom",
    ...options,
  });
}

/** Of a worker that nothing ails. */
export const WELL: WorkerCondition = {
  clockSkewMs: null,
  handlersCutOff: 0,
  handlersStuck: 0,
  leasesFailing: false,
};
