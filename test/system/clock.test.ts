import { getEventListeners } from "node:events";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { systemClock } from "../../runtime/adapters/system/clock.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const DAY_MS = 86_400_000;

test("a sleep longer than 2^31-1 ms lasts its whole time and not an instant", async () => {
  let isAwake = false;
  const sleeping = systemClock.sleep(60 * DAY_MS, new AbortController().signal).then(() => {
    isAwake = true;
  });
  await vi.advanceTimersByTimeAsync(60 * DAY_MS - 1);
  expect(isAwake).toBe(false);
  await vi.advanceTimersByTimeAsync(2);
  await sleeping;
  expect(isAwake).toBe(true);
});

test("an abort ends a sleep at once and leaves no timer", async () => {
  const aborter = new AbortController();
  const sleeping = systemClock.sleep(DAY_MS, aborter.signal);
  aborter.abort();
  await sleeping;
  expect(vi.getTimerCount()).toBe(0);
});

test("a sleep with an aborted signal, and one of no or negative length, return at once", async () => {
  await systemClock.sleep(DAY_MS, AbortSignal.abort());
  await systemClock.sleep(0, new AbortController().signal);
  await systemClock.sleep(-5, new AbortController().signal);
  expect(vi.getTimerCount()).toBe(0);
});

test("many sleeps on one long-lived signal leave no listener on it", async () => {
  const { signal } = new AbortController();
  for (let round = 0; round < 50; round += 1) {
    const sleeping = systemClock.sleep(10, signal);
    await vi.advanceTimersByTimeAsync(10);
    await sleeping;
  }
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});

test("monotonic time never goes back when the wall clock does", () => {
  const before = systemClock.monotonicMs();
  vi.setSystemTime(0);
  expect(systemClock.monotonicMs()).toBeGreaterThanOrEqual(before);
});
