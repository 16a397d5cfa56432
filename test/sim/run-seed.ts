import { drawPlan } from "./draw-plan.ts";
import type { Violation } from "./invariants.ts";
import { withLightAborts } from "./light-abort.ts";
import { judgeQuiet, judgeRecoveries, quietAfterMs, recoveredAfterMs, settled } from "./liveness.ts";
import type { Plan } from "./plan.ts";
import type { Situation } from "./reach.ts";
import { Simulation } from "./simulation.ts";
import type { TraceEntry } from "./trace.ts";
import { outsideMicrotasks } from "./world.ts";

export interface RunOptions {
  /** Ids of the plan's faults and work that happen; absent: all. */
  readonly only?: ReadonlySet<string>;
  readonly keepTrace?: boolean;
}

export interface SeedResult {
  readonly seed: number;
  /** The first one; null: everything held. */
  readonly violation: Violation | null;
  /** Of everything that happened, in order: the same seed has the same. */
  readonly hash: string;
  readonly events: number;
  readonly simulatedMs: number;
  readonly jobs: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly reach: Readonly<Partial<Record<Situation, number>>>;
  readonly trace: readonly TraceEntry[] | null;
}

/** One world, from its first event until it is healed and quiet. Never rejects for what goes wrong in the world. */
export function runSeed(seed: number, options: RunOptions = {}): Promise<SeedResult> {
  return runPlan(drawPlan(seed), options);
}

export function runPlan(whole: Plan, { only, keepTrace = false }: RunOptions = {}): Promise<SeedResult> {
  const isKept = ({ id }: { readonly id: string }): boolean => only === undefined || only.has(id);
  const plan: Plan = { ...whole, faults: whole.faults.filter(isKept), work: whole.work.filter(isKept) };
  return outsideMicrotasks(() => {
    const simulation = new Simulation(plan, { keepTrace });
    const onUnhandled = (error: unknown): void => simulation.auditor.unhandled(error);
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 4;
    process.on("unhandledRejection", onUnhandled);
    try {
      withLightAborts(() => live(simulation));
    } catch (error) {
      simulation.auditor.unhandled(error);
    } finally {
      process.off("unhandledRejection", onUnhandled);
      Error.stackTraceLimit = stackTraceLimit;
    }
    const { world, auditor, faults, reach, database } = simulation;
    return {
      seed: plan.seed,
      violation: auditor.violation,
      hash: world.trace.hash,
      events: world.events,
      simulatedMs: world.nowMs,
      jobs: database.jobs.size,
      faults: faults.met,
      reach: reach.counts,
      trace: world.trace.entries,
    };
  });
}

/** Chaos, then healing, then a graceful end. */
function live(simulation: Simulation): void {
  const { world, auditor, client, faults, slots, plan, database } = simulation;
  const until = (isOver: () => boolean, limitMs: number): void => {
    while (auditor.violation === null && world.nowMs < limitMs && !isOver() && world.step()) {}
  };
  client.start();
  const firstFires = new Map(
    [...database.schedules.values()].map(({ name, nextFireAtMs }) => [name, nextFireAtMs ?? 0]),
  );
  for (let slot = 0; slot < plan.settings.slots; slot++)
    world.after(world.schedule.between(0, 50), () => slots.start(slot, "good"));
  faults.start();
  until(() => false, plan.settings.chaosMs);

  faults.heal();
  slots.heal();
  world.trace.note(world.nowMs, "world", "heal", "");
  const healedMs = world.nowMs;
  world.after(recoveredAfterMs(plan), () => judgeRecoveries(simulation, healedMs));
  // Schedules go on for a moment, then only what they started.
  const quietWishedMs = 8_000;
  world.after(quietWishedMs, () => {
    for (const schedule of database.schedules.values()) schedule.spec = { ...schedule.spec, suspend: true };
  });
  until(() => world.nowMs >= healedMs + quietWishedMs && settled(simulation), healedMs + quietAfterMs(plan));
  if (auditor.violation === null) judgeQuiet(simulation, firstFires);
  if (auditor.violation !== null) return;

  slots.close();
  const stopping = slots.alive();
  for (const process of stopping) world.after(0, () => void process.stop());
  const stopLimitMs = world.nowMs + 30_000;
  until(() => slots.alive().length === 0, stopLimitMs);
  for (const process of slots.alive())
    auditor.fail("L5", `${process.name} has not stopped after 30 s without anything to do`);
  for (const [duty, { workerId }] of database.terms) {
    if (stopping.some((process) => process.workerId === workerId))
      auditor.fail("L5", `the term of ${duty} was not released`);
  }
}
