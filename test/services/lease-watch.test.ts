import { expect, it } from "vitest";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import { LeaseWatch } from "../../runtime/services/lease-watch.ts";

const LEASE = { jobId: "j" as JobId, token: 1n as DispatchToken, leaseCounter: 0 };

/** Looks every 10 s, each answered after 10 ms; gives the instants at which the lease looked dead. */
function lookEvery10s(watch: LeaseWatch, fromMs: number, untilMs: number): number[] {
  const suspected: number[] = [];
  for (let askedMs = fromMs; askedMs <= untilMs; askedMs += 10_000) {
    if (watch.look([LEASE], { askedMs, answeredMs: askedMs + 10 }).length > 0) suspected.push(askedMs);
  }
  return suspected;
}

it("suspects what has not changed for a whole lease", () => {
  const watch = new LeaseWatch({ leaseMs: 60_000, intervalMs: 10_000 });
  expect(lookEvery10s(watch, 0, 80_000)).toEqual([70_000, 80_000]);
});

it("begins anew after a gap between two looks", () => {
  const watch = new LeaseWatch({ leaseMs: 60_000, intervalMs: 10_000 });
  expect(lookEvery10s(watch, 0, 50_000)).toEqual([]);
  expect(lookEvery10s(watch, 90_000, 150_000)).toEqual([]);
});

it("begins anew after a look whose answer was long under way, as over a pause of the process", () => {
  const watch = new LeaseWatch({ leaseMs: 60_000, intervalMs: 10_000 });
  expect(lookEvery10s(watch, 0, 40_000)).toEqual([]);
  expect(watch.look([LEASE], { askedMs: 50_000, answeredMs: 130_000 })).toEqual([]);
  expect(lookEvery10s(watch, 140_000, 180_000)).toEqual([]);
});
