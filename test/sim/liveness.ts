import { isFinal } from "../../runtime/protocol/states.ts";
import { shortId } from "./answers.ts";
import type { Plan } from "./plan.ts";
import { accountForInstants } from "./schedule-audit.ts";
import type { Simulation } from "./simulation.ts";

/** A term of leadership, and what a first look at it takes. */
const TERM_MS = 17_000;
/** Retries, losses and time-outs of the longest-suffering job. */
const ENDURANCE_MS = 240_000;

/**
 * What a broker lost comes back: a job must be a minute old for a marker, a marker that was lost itself is written again
 * after two, and its leader looks every ten seconds; what the broker did not take was put off for a minute.
 */
const REDISPATCH_MS = 60_000 + 120_000 + 60_000 + 6 * 10_000;

/** A clock that was set back makes everything due, and every term, later by as much. */
function setBackMs(plan: Plan): number {
  return plan.faults.reduce((sum, fault) => sum + (fault.kind === "clock-step" ? Math.max(0, -fault.stepMs) : 0), 0);
}

/** After this long nothing belongs to the dead any more. */
export function recoveredAfterMs(plan: Plan): number {
  const { leaseMs, recoveryMs } = plan.settings;
  return 2 * leaseMs + 2 * recoveryMs + TERM_MS + 15_000 + setBackMs(plan);
}

/** After this long every job has come to its end. */
export function quietAfterMs(plan: Plan): number {
  const redispatchMs = plan.settings.transport === null ? 0 : REDISPATCH_MS;
  return recoveredAfterMs(plan) + ENDURANCE_MS + 6 * plan.settings.leaseMs + redispatchMs;
}

export function settled({ database }: Simulation): boolean {
  for (const row of database.jobs.values()) if (!isFinal(row.state)) return false;
  for (const { awaitsFinish, spec } of database.schedules.values()) if (awaitsFinish && !spec.suspend) return false;
  return true;
}

/** Called when the time for it is over: does a job still belong to a process that was dead at the healing? */
export function judgeRecoveries({ database, slots, auditor }: Simulation, healedMs: number): void {
  for (const row of database.processing) {
    const owner = slots.all.find(({ workerId }) => workerId === row.workerId);
    if (owner === undefined || owner.alive || owner.endedAtMs > healedMs) continue;
    auditor.fail("L3", `${shortId(row.id)}#${row.token} still belongs to ${owner.name}, which is dead`);
  }
}

export function judgeQuiet({ database, auditor, plan }: Simulation, firstFires: ReadonlyMap<string, number>): void {
  for (const row of database.jobs.values()) {
    if (isFinal(row.state)) continue;
    auditor.fail("L1", `${shortId(row.id)} is still ${row.state}${row.hold === null ? "" : ` (${row.hold})`}`);
  }
  if (plan.faults.some(({ kind }) => kind === "rollback")) return;
  const problem = accountForInstants(database, firstFires);
  if (problem !== null) auditor.fail("L4", problem);
}
