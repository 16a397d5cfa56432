import { describe, expect, it } from "vitest";
import { drawPlan, type Plan, runPlan, runSeed, runSeeds, SITUATIONS } from "./main.ts";
import { shrinkPlan } from "./shrink.ts";

/** Situations too rare for a few hundred seeds; the long run demands them. */
const RARE = 12;

describe("the engine in simulated worlds", () => {
  it("breaks no invariant in 300 of them, and meets most situations that matter", async () => {
    const { violations, reach, simulatedMs } = await runSeeds({ from: 1, count: 300, stopAtViolation: true });
    expect(violations).toEqual([]);
    const missing = SITUATIONS.filter((situation) => reach[situation] === 0);
    expect(missing.length, `never met: ${missing.join("; ")}`).toBeLessThanOrEqual(RARE);
    expect(simulatedMs).toBeGreaterThan(300 * 20_000);
  }, 240_000);

  it.each([1513])("breaks none in seed %i, which once found a look that hid a pause", async (seed) => {
    expect((await runSeed(seed)).violation).toBeNull();
  });

  it("does the same for the same seed, and something else for another", async () => {
    const [first, again, other] = [await runSeed(7), await runSeed(7), await runSeed(8)];
    expect(again).toEqual(first);
    expect(other.hash).not.toBe(first.hash);
  });

  it("keeps the order of things whether or not somebody reads the trace", async () => {
    const [silent, told] = [await runSeed(11), await runSeed(11, { keepTrace: true })];
    expect(told.hash).toBe(silent.hash);
    expect(told.trace?.length).toBeGreaterThan(100);
  });

  it("draws faults without regard to how much work there is", () => {
    const kinds = (plan: Plan): string[] => plan.faults.map(({ kind }) => kind);
    const plan = drawPlan(3);
    expect(kinds(drawPlan(3))).toEqual(kinds(plan));
    expect(new Set([...plan.faults, ...plan.work].map(({ id }) => id)).size).toBe(
      plan.faults.length + plan.work.length,
    );
  });

  it("gives four worlds of ten a broker, and only to them what goes wrong with one", () => {
    const plans = Array.from({ length: 200 }, (_, index) => drawPlan(index + 1));
    const withBroker = plans.filter(({ settings }) => settings.transport !== null);
    expect(withBroker.length).toBeGreaterThan(60);
    expect(withBroker.length).toBeLessThan(100);
    const ofBroker = ({ faults }: Plan): boolean => faults.some(({ id }) => id.startsWith("b"));
    expect(plans.filter((plan) => plan.settings.transport === null && ofBroker(plan))).toEqual([]);
    expect(withBroker.filter(ofBroker).length).toBeGreaterThan(withBroker.length * 0.9);
  });
});

/** A world in which a job can never end: its handler hangs for longer than the healing is given. */
function hopeless(): Plan {
  const plan = drawPlan(1);
  const steps = [{ takesMs: 10, ends: "hangs", progress: false }] as const;
  return {
    ...plan,
    work: [
      ...plan.work,
      {
        id: "bad",
        kind: "job",
        atMs: 100,
        type: "work",
        delayMs: 0,
        priority: 0,
        key: null,
        maxAttempts: null,
        timeoutMs: 86_400_000,
        steps,
      },
    ],
  };
}

describe("a world that fails", { timeout: 60_000 }, () => {
  it("is found, with the invariant that broke", async () => {
    const { violation } = await runPlan(hopeless());
    expect(violation).toMatchObject({ invariant: "L1" });
  });

  it("is made as small as it gets", async () => {
    const plan = hopeless();
    const { violation } = await runPlan(plan);
    expect([...(await shrinkPlan(plan, violation))]).toEqual(["bad"]);
  });
});
