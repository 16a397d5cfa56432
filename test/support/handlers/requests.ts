import type { Isolation, JobDefinition, PolicySpec } from "../../../runtime/config/objects.ts";
import type { DispatchToken, JobId } from "../../../runtime/core/ids.ts";
import type { Json, JsonObject } from "../../../runtime/core/json.ts";
import type { ClaimedJob } from "../../../runtime/protocol/ports/jobs.ts";

export interface RunOptions {
  readonly payload?: Json;
  readonly settings?: JsonObject;
  readonly isolation?: Isolation;
  readonly alone?: boolean;
  readonly type?: string;
  readonly immediateRetry?: PolicySpec["immediateRetry"];
  readonly failures?: number;
  readonly schedule?: ClaimedJob["schedule"];
  /** Of this process's monotonic clock; for ever when absent. */
  readonly keepUntilMs?: number;
  readonly onProgress?: (percent: number, message: string | null) => void;
}

/** What a worker asks of its host for the next job of this type. */
export function makeRequest(definition: JobDefinition, options: RunOptions = {}) {
  return {
    job: makeJob(definition.type, options),
    definition,
    timeoutMs: 60_000,
    alone: options.alone ?? false,
    keepUntilMs: options.keepUntilMs ?? Number.POSITIVE_INFINITY,
    onProgress: options.onProgress ?? (() => {}),
  };
}

let jobs = 0;

function makeJob(type: string, { payload = {}, failures = 0, schedule = null }: RunOptions): ClaimedJob {
  const number = ++jobs;
  return {
    id: `0199a000-0000-7000-8000-${String(number).padStart(12, "0")}` as JobId,
    token: BigInt(number) as DispatchToken,
    type,
    queue: "default",
    payload,
    definitionHash: "d",
    revision: 3,
    failures,
    execution: failures + 1,
    lost: 0,
    lostUnstarted: 0,
    returns: 0,
    maxAttempts: null,
    timeoutMs: null,
    schedule,
    recovered: false,
  };
}

export function makeDefinition(
  options: RunOptions & { readonly handler: string; readonly bundleHash: string | null },
): JobDefinition {
  return {
    type: options.type ?? options.handler.replace(/\.ts$/, "").replaceAll("/", "."),
    handler: options.handler,
    bundleHash: options.bundleHash,
    queue: "default",
    timeoutMs: 60_000,
    isolation: options.isolation ?? "thread",
    settings: options.settings ?? {},
    payloadSchema: null,
    retention: { succeededMs: 1, cancelledMs: 1, failedMs: 1 },
    policy: {
      immediateRetry: options.immediateRetry ?? { attempts: 0, initialMs: 1 },
      retry: { maxAttempts: 5, backoff: { type: "fixed", initialMs: 1, maxMs: 1, jitter: 0 } },
      timeoutMs: 60_000,
      maxLost: 3,
      maxLostUnstarted: 20,
      maxReturns: 20,
    },
  };
}
