import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import type { BackoffSpec } from "../../runtime/config/objects.ts";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import { backoffMs, requestedWaitMs } from "../../runtime/protocol/backoff.ts";
import type { AbortReason, HandlerError, HandlerOutcome } from "../../runtime/protocol/ports/handlers.ts";
import type { ClaimedJob } from "../../runtime/protocol/ports/jobs.ts";
import { settle, whyAlone } from "../../runtime/protocol/settle.ts";
import { TRANSITIONS } from "../../runtime/protocol/states.ts";
import { jobDefinition } from "../contract/definitions.ts";

const YEAR_MS = 365 * 86_400_000;
const definition = jobDefinition({ type: "work" });
const random = { next: () => 0.5 };

function claimed(options: Partial<ClaimedJob> = {}): ClaimedJob {
  return {
    id: "0" as JobId,
    token: 7n as DispatchToken,
    type: "work",
    queue: "default",
    payload: {},
    definitionHash: "sha256:d",
    revision: 3,
    failures: 0,
    execution: 1,
    lost: 0,
    lostUnstarted: 0,
    returns: 0,
    maxAttempts: null,
    timeoutMs: null,
    schedule: null,
    recovered: false,
    ...options,
  };
}

function threw(options: Partial<HandlerError> = {}): HandlerOutcome {
  return {
    kind: "threw",
    error: { name: "Error", message: "boom", stack: "at x", permanent: false, retryAfterMs: null, ...options },
  };
}

function settled(
  outcome: HandlerOutcome,
  options: { readonly abort?: AbortReason; readonly job?: Partial<ClaimedJob> } = {},
) {
  return settle({
    job: claimed(options.job),
    definition,
    outcome,
    abort: options.abort ?? null,
    timeoutMs: 10_000,
    ranMs: 12,
    random,
  });
}

const RETURNED: HandlerOutcome = { kind: "returned", result: '{"a":1}', resultError: null };

describe("the wait before the next attempt", () => {
  const policy = (options: Partial<BackoffSpec>): BackoffSpec => ({
    type: "exponential",
    initialMs: 2_000,
    maxMs: 30_000,
    jitter: 0,
    ...options,
  });

  it("doubles from the initial wait up to the cap", () => {
    expect([1, 2, 3, 4, 5, 6].map((failure) => backoffMs(policy({}), failure, random))).toEqual([
      2_000, 4_000, 8_000, 16_000, 30_000, 30_000,
    ]);
  });

  it("is always the same with a fixed back-off", () => {
    expect([1, 2, 900].map((failure) => backoffMs(policy({ type: "fixed" }), failure, random))).toEqual([
      2_000, 2_000, 2_000,
    ]);
  });

  it("is a finite whole number within the bounds for every attempt from 1 to 5000 (H01)", () => {
    const dice = seededRandom(1);
    for (let failure = 1; failure <= 5_000; failure++) {
      const jittered = backoffMs(policy({ jitter: 1 }), failure, dice);
      expect(Number.isSafeInteger(jittered) && jittered >= 0 && jittered <= 30_000).toBe(true);
      if (failure > 5) expect(backoffMs(policy({}), failure, dice)).toBe(30_000);
    }
  });

  it("is never beyond the default cap, however many attempts there were (H03)", () => {
    const { backoff } = definition.policy.retry;
    for (let failure = 1; failure <= 40; failure++) {
      const waitMs = backoffMs({ ...backoff, initialMs: 1_000 }, failure, random);
      expect(waitMs).toBeLessThanOrEqual(900_000);
    }
  });

  it("stays in bounds whatever a policy says", () => {
    fc.assert(
      fc.property(
        fc.record({
          type: fc.constantFrom("exponential", "fixed"),
          initialMs: fc.nat(YEAR_MS),
          maxMs: fc.nat(YEAR_MS),
          jitter: fc.double({ min: 0, max: 1, noNaN: true }),
        }),
        fc.integer({ min: 1, max: 5_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (spec, failure, roll) => {
          const waitMs = backoffMs(spec as BackoffSpec, failure, { next: () => roll });
          expect(Number.isSafeInteger(waitMs) && waitMs >= 0 && waitMs <= spec.maxMs).toBe(true);
        },
      ),
    );
  });

  it("is what the handler asked for, up to the cap, and the policy's own for what is no wait (H05)", () => {
    const { backoff } = definition.policy.retry;
    expect(requestedWaitMs(backoff, 120_000)).toBe(120_000);
    expect(requestedWaitMs(backoff, 10 * YEAR_MS)).toBe(900_000);
    expect(requestedWaitMs(backoff, Number.POSITIVE_INFINITY)).toBe(900_000);
    for (const nonsense of [-5, Number.NaN, null]) expect(requestedWaitMs(backoff, nonsense)).toBeNull();
    expect(settled(threw({ retryAfterMs: -5 })).delayMs).toBe(13_500);
    expect(settled(threw({ retryAfterMs: 120_000 })).delayMs).toBe(120_000);
  });
});

describe("the end of an execution", () => {
  it("is a success with its result, whatever the handler was asked but to end in time", () => {
    for (const abort of [undefined, "cancelled", "shutdown", "lease-lost", "lease-doubtful"] as const) {
      const finish = settled(RETURNED, abort === undefined ? {} : { abort });
      expect(finish).toMatchObject({
        outcome: "succeeded",
        next: "Succeeded",
        charge: null,
        result: '{"a":1}',
        error: null,
      });
    }
  });

  it("is a failure with a wait, and Failed when the attempts are used up", () => {
    expect(settled(threw())).toMatchObject({
      outcome: "failed",
      next: "Scheduled",
      reason: "retry",
      charge: "failure",
      delayMs: 13_500,
      error: "boom",
      stack: "at x",
    });
    expect(settled(threw(), { job: { failures: 3 } }).next).toBe("Scheduled");
    expect(settled(threw(), { job: { failures: 4 } })).toMatchObject({
      next: "Failed",
      reason: "failed",
      charge: "failure",
      delayMs: 0,
    });
    expect(settled(threw(), { job: { maxAttempts: 1 } }).next).toBe("Failed");
  });

  it("is Failed at once for a permanent error", () => {
    expect(settled(threw({ name: "PermanentError", permanent: true }))).toMatchObject({
      next: "Failed",
      charge: "failure",
      error: "PermanentError: boom",
    });
  });

  it("is a time-out whatever the handler does after it", () => {
    for (const outcome of [RETURNED, threw(), { kind: "cut-off" }, { kind: "crashed", detail: "x" }] as const) {
      expect(settled(outcome, { abort: "time-out" })).toMatchObject({
        outcome: "timed-out",
        next: "Scheduled",
        charge: "failure",
        result: null,
        error: "timed out after 10000 ms",
      });
    }
  });

  it("is Cancelled for anything but a return after a cancel request, and costs nothing", () => {
    for (const outcome of [
      threw(),
      threw({ permanent: true }),
      { kind: "cut-off" },
      { kind: "crashed", detail: "x" },
      { kind: "neighbour-ended" },
    ] as const) {
      expect(settled(outcome, { abort: "cancelled" })).toMatchObject({
        outcome: "cancelled",
        next: "Cancelled",
        charge: null,
      });
    }
  });

  it("is a return to its place without a charge when the worker stops, doubts its lease or ends a neighbour", () => {
    const back = { outcome: "returned", next: "Scheduled", reason: "returned", delayMs: 0, hold: null };
    expect(settled(threw(), { abort: "shutdown" })).toMatchObject({ ...back, charge: "return" });
    expect(settled({ kind: "cut-off" }, { abort: "shutdown" })).toMatchObject({ ...back, charge: "return" });
    expect(settled(threw(), { abort: "lease-doubtful" })).toMatchObject({ ...back, charge: null });
    expect(settled({ kind: "neighbour-ended" })).toMatchObject({ ...back, charge: null });
  });

  it("is put off for as long as a handler snoozes, at no charge, and Cancelled when that was asked for", () => {
    const snoozed: HandlerOutcome = { kind: "snoozed", forMs: 600_000 };
    const off = {
      outcome: "snoozed",
      next: "Scheduled",
      reason: "snoozed",
      charge: null,
      delayMs: 600_000,
      hold: null,
    };
    expect(settled(snoozed)).toMatchObject({ ...off, result: null, error: null, ranMs: 12 });
    expect(settled(snoozed, { job: { failures: 4, lost: 2 } })).toMatchObject(off);
    expect(settled(snoozed, { abort: "shutdown" })).toMatchObject(off);
    expect(settled(snoozed, { abort: "cancelled" })).toMatchObject({ outcome: "cancelled", next: "Cancelled" });
    expect(settled(snoozed, { abort: "time-out" })).toMatchObject({ outcome: "timed-out", charge: "failure" });
  });

  it("brings what was enqueued with a success, and with nothing else", () => {
    const child = { id: "c" as JobId, type: "work", queue: null, payload: {}, priority: 0 };
    const children = [{ ...child, due: null, maxAttempts: null, timeoutMs: null }];
    const returned: HandlerOutcome = { ...RETURNED, children };
    expect(settled(returned).children).toEqual(children);
    expect(settled(returned, { abort: "cancelled" }).children).toEqual(children);
    expect(settled(returned, { abort: "time-out" }).children).toBeUndefined();
    expect(settled(RETURNED)).not.toHaveProperty("children");
  });

  it("charges a crash to the budget of losses, and ends the job when that is spent", () => {
    const crashed: HandlerOutcome = { kind: "crashed", detail: "exit code 134" };
    expect(settled(crashed)).toMatchObject({
      outcome: "lost",
      next: "Scheduled",
      reason: "worker lost",
      charge: "lost",
      error: "exit code 134",
    });
    expect(settled(crashed).delayMs).toBeGreaterThan(0);
    expect(settled(crashed, { job: { lost: 2 } })).toMatchObject({
      next: "Failed",
      reason: "worker lost",
      charge: "lost",
    });
    expect(settled(crashed, { job: { failures: 4 } }).next).toBe("Scheduled");
  });

  // I01, I03 and I05 are about a circuit breaker. There is none in this version: a policy that asks for one is refused.

  it("is a hold without a charge when the handler cannot be loaded", () => {
    expect(settled({ kind: "unloadable", detail: "no such module" })).toMatchObject({
      next: "Scheduled",
      hold: "no-handler",
      reason: "held",
      charge: null,
      delayMs: 0,
    });
  });

  it("is a hold for a type that nobody declared", () => {
    const finish = settle({
      job: claimed({ definitionHash: null }),
      definition: null,
      outcome: { kind: "unloadable", detail: "x" },
      abort: null,
      timeoutMs: 0,
      ranMs: null,
      random,
    });
    expect(finish).toMatchObject({ hold: "no-handler", ranMs: null, bundleHash: null });
    expect(finish.retainMs.failed).toBeGreaterThan(0);
  });

  it("carries error texts that PostgreSQL takes (E13)", () => {
    const { error, stack } = settled(threw({ message: "x\u0000y\ud83d", stack: "s".repeat(100_000) }));
    expect(error).not.toContain("\u0000");
    expect(error).not.toMatch(/\p{Surrogate}/u);
    expect(Buffer.byteLength(stack ?? "")).toBeLessThanOrEqual(16 * 1024);
  });

  it("is always a move of the state table with the charge that stands there", () => {
    const outcomes: readonly HandlerOutcome[] = [
      RETURNED,
      threw(),
      threw({ permanent: true }),
      { kind: "snoozed", forMs: 1 },
      { kind: "cut-off" },
      { kind: "neighbour-ended" },
      { kind: "crashed", detail: "x" },
      { kind: "unloadable", detail: "x" },
    ];
    for (const outcome of outcomes) {
      for (const abort of [undefined, "time-out", "cancelled", "shutdown", "lease-lost", "lease-doubtful"] as const) {
        for (const job of [{}, { failures: 4, lost: 2 }]) {
          const finish = settled(outcome, abort === undefined ? { job } : { abort, job });
          const row = TRANSITIONS.find(
            ([from, to, reason]) => from === "Processing" && to === finish.next && reason === finish.reason,
          );
          expect(row, `${outcome.kind} ${abort}: ${finish.next}, ${finish.reason}`).toBeDefined();
          expect(finish.charge === "return" ? null : finish.charge).toBe(row?.[3]);
        }
      }
    }
  });
});

describe("a job that is suspected", () => {
  it("runs alone after a loss, after many losses without a start, and after many returns", () => {
    const { policy } = definition;
    expect(whyAlone(claimed(), policy)).toBeNull();
    expect(whyAlone(claimed({ lost: 1 }), policy)).toBe("lost");
    expect(whyAlone(claimed({ lostUnstarted: 19, returns: 19 }), policy)).toBeNull();
    expect(whyAlone(claimed({ lostUnstarted: 20 }), policy)).toBe("lost-unstarted");
    expect(whyAlone(claimed({ returns: 20 }), policy)).toBe("returned");
  });
});

describe("a concurrency key", () => {
  it("is told by every end of its job, and by no other", () => {
    for (const outcome of [RETURNED, threw(), { kind: "unloadable", detail: "x" }] as const) {
      expect(settled(outcome, { job: { concurrencyKey: "k" } })).toHaveProperty("concurrencyKey", "k");
      expect(settled(outcome)).not.toHaveProperty("concurrencyKey");
    }
  });
});
