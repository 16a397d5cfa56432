import { expect, test } from "vitest";
import { readOptions, UsageError } from "../../chaos/options.ts";
import { planFaults } from "../../chaos/plan.ts";

const SETTINGS = {
  seed: 7,
  minutes: 60,
  leaseMs: 6_000,
  workers: ["worker-1", "worker-2", "worker-3"],
  hasPooler: true,
  freezes: true,
  isFull: false,
};

test("one seed plans the same faults again, and another seed others", () => {
  expect(planFaults(SETTINGS)).toEqual(planFaults(SETTINGS));
  expect(planFaults({ ...SETTINGS, seed: 8 })).not.toEqual(planFaults(SETTINGS));
});

test("an hour has every kind of fault and every mode of the network, in order and within its time", () => {
  const plan = planFaults(SETTINGS);
  const kinds = new Set(plan.map((fault) => (fault.kind === "network" ? fault.mode.kind : fault.kind)));
  const processes = ["kill", "stop", "freeze", "terminate", "terminate-kill", "postgres", "outage", "pooler", "roll"];
  const modes = ["latency", "slow", "black-hole", "one-way", "reset", "refuse", "cut"];
  expect([...kinds].sort()).toEqual([...processes, ...modes].sort());
  expect(plan.every(({ atMs }, index) => atMs > (plan[index - 1]?.atMs ?? 0) && atMs < 3_600_000)).toBe(true);
  const restarts = new Set(plan.flatMap((fault) => (fault.kind === "postgres" ? [fault.how] : [])));
  expect([...restarts].sort()).toEqual(["fast", "immediate", "kill"]);
});

test("some pauses are shorter than the lease and some longer", () => {
  const pauses = planFaults(SETTINGS).flatMap((fault) => (fault.kind === "stop" ? [fault.forMs] : []));
  expect(Math.min(...pauses)).toBeLessThan(SETTINGS.leaseMs);
  expect(Math.max(...pauses)).toBeGreaterThan(2 * SETTINGS.leaseMs);
});

test("without a pooler none is restarted, and without freezes nobody is frozen", () => {
  const kinds = planFaults({ ...SETTINGS, hasPooler: false, freezes: false }).map(({ kind }) => kind);
  expect(kinds).not.toContain("pooler");
  expect(kinds).not.toContain("freeze");
});

test("options have defaults, and what they do not know is refused with its name", () => {
  expect(readOptions([], 42)).toMatchObject({ minutes: 10, seed: 42, leaseMs: 6_000, workers: 4, isolation: "thread" });
  expect(readOptions(["--lease", "60s", "--seed", "1", "--isolation", "mixed"], 42)).toMatchObject({
    leaseMs: 60_000,
    seed: 1,
    isolation: "mixed",
  });
  for (const wrong of [
    ["--lease", "1m"],
    ["--workers", "one"],
    ["--isolation", "inline"],
    ["--minutes", ""],
    ["--nothing"],
  ]) {
    expect(() => readOptions(wrong, 42)).toThrow(UsageError);
    expect(() => readOptions(wrong, 42)).toThrow(wrong[0]);
  }
});

test("on the full stack the broker, its connections and the lock nodes have their share, and only there", () => {
  const kindsOf = (isFull: boolean) => new Set(planFaults({ ...SETTINGS, isFull }).map(({ kind }) => kind));
  const ofServices = ["broker", "broker-network", "locks"] as const;
  for (const kind of ofServices) {
    expect(kindsOf(true)).toContain(kind);
    expect(kindsOf(false)).not.toContain(kind);
  }
  expect(kindsOf(true)).toContain("kill");
  expect(readOptions(["--full"], 1).isFull).toBe(true);
});
