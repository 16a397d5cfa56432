import { describeEnd } from "../config/calendar-rules.ts";
import type { ScheduleObject } from "../config/objects.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import type { AppliedState } from "../protocol/ports/revisions.ts";
import type { Desired } from "./desired.ts";
import { formatInstant } from "./format-instant.ts";
import { decideNextFire } from "./next-fire-decision.ts";
import { addressOf, type ObjectChange } from "./object-changes.ts";
import { cancelsJobs } from "./removals.ts";
import type { Misfits } from "./waiting-payloads.ts";

export interface ConsequencesRequest {
  readonly desired: Desired;
  readonly applied: AppliedState;
  readonly changes: readonly ObjectChange[];
  readonly jobs: {
    /** Unfinished jobs by type, where they were counted. */
    readonly live: ReadonlyMap<string, number>;
    /** Jobs that the apply would cancel, by the object that goes. Absent: not counted. */
    readonly cancelled?: ReadonlyMap<string, number>;
    readonly misfits: ReadonlyMap<string, Misfits>;
  };
}

/** What the changes mean for what runs, waits and fires, in sentences. */
export function describeConsequences(request: ConsequencesRequest): {
  readonly consequences: readonly string[];
  readonly warnings: readonly string[];
} {
  const { desired, applied, changes } = request;
  const consequences: string[] = [];
  const warnings: string[] = [];
  const actions = new Map(changes.map((change) => [change.object, change]));
  for (const object of desired.objects) {
    const change = actions.get(addressOf(object));
    if (change === undefined || change.action === "none") continue;
    if (object.kind === "Schedule") describeSchedule(object, applied, { consequences, warnings });
    if (object.kind === "Job" && change.action === "update" && isNewDefinition(change))
      consequences.push(describeNewCode(object.name, change));
    if (object.kind === "Queue" && object.spec.suspend) {
      consequences.push(`Queue/${object.name} is suspended: nothing is taken from it, what runs finishes.`);
    }
    if (object.kind === "Policy" && change.action === "update") {
      const users = desired.objects.filter((user) => user.kind === "Job" && user.spec.policy === object.name);
      if (users.length > 0)
        consequences.push(`Policy/${object.name} applies to ${users.length} job types from their next start.`);
    }
  }
  consequences.push(...describeRemovals(request));
  for (const object of desired.objects) {
    if (object.kind !== "Calendar" || object.spec.validUntil === null) continue;
    const ending = describeEnd(object.spec.validUntil, applied.now.toISOString().slice(0, 10));
    if (ending !== null) warnings.push(`Calendar/${object.name} ${ending}.`);
  }
  for (const [type, { misfits, looked }] of request.jobs.misfits) {
    const some = looked === 1 ? "the waiting job does" : `${misfits} of the ${looked} newest waiting jobs do`;
    const end = misfits === 1 ? "it ends" : "they end";
    warnings.push(`Job/${type}: ${some} not fit the new payload schema; ${end} as Failed when taken.`);
  }
  if (applied.project !== null && !sameRuntime(desired, applied)) {
    warnings.push("spec.runtime changed: restart needed, since processes read it when they start.");
  }
  return { consequences, warnings };
}

interface Sentences {
  readonly consequences: string[];
  readonly warnings: string[];
}

function describeSchedule(
  schedule: ScheduleObject,
  applied: AppliedState,
  { consequences, warnings }: Sentences,
): void {
  const { name, spec } = schedule;
  const known = applied.schedules.find((candidate) => candidate.name === name);
  const fire = decideNextFire(schedule, applied);
  const show = (at: Date) => formatInstant(at, spec.timeZone);
  if (spec.suspend) {
    if (known === undefined || !known.suspended) consequences.push(`Schedule/${name} is suspended: it does not fire.`);
    return;
  }
  if (fire.kind === "keep") return;
  if (known?.paused === true) {
    consequences.push(`Schedule/${name} is paused: it fires by its new timing once it is resumed.`);
    return;
  }
  if (fire.at === null) warnings.push(`Schedule/${name} never fires: no instant of its timing lies ahead.`);
  else if (fire.before === null) consequences.push(`Schedule/${name}: first fire ${show(fire.at)}.`);
  else if (fire.before.getTime() !== fire.at.getTime()) {
    consequences.push(`Schedule/${name}: next fire moves from ${show(fire.before)} to ${show(fire.at)}.`);
  }
}

/** What becomes of its jobs after its removal is no matter of the jobs that start now. */
function isNewDefinition({ fields }: ObjectChange): boolean {
  return fields.length === 0 || fields.some(({ path }) => path !== "/spec/onRemove");
}

function describeNewCode(name: string, change: ObjectChange): string {
  const what = change.fields.some(({ path }) => path === "/bundle") ? "new code" : "new definition";
  return `Job/${name}: waiting jobs and retries take the ${what} at their next start; running ones finish as they began.`;
}

function describeRemovals({ applied, changes, jobs }: ConsequencesRequest): readonly string[] {
  const deleted = new Set(changes.flatMap(({ action, object }) => (action === "delete" ? [object] : [])));
  return applied.objects.flatMap((object) => {
    if (!deleted.has(addressOf(object))) return [];
    const cancelled = jobs.cancelled?.get(addressOf(object)) ?? 0;
    const lost = cancelled === 0 ? [] : [describeCancelled(addressOf(object), cancelled)];
    if (object.kind === "Job") {
      if (cancelsJobs(object)) return lost;
      const count = jobs.live.get(object.name) ?? 0;
      if (count === 0) return [];
      return [
        `Job/${object.name}: ${count} waiting or running ${count === 1 ? "job" : "jobs"} of it still run to their end.`,
      ];
    }
    if (object.kind === "Schedule") {
      const next =
        applied.schedules.find(({ name, suspended }) => name === object.name && !suspended)?.nextFireAt ?? null;
      const due = next === null ? "" : `; the next was due ${formatInstant(next, object.spec.timeZone)}`;
      return [`Schedule/${object.name} fires no more${due}.`, ...lost];
    }
    if (object.kind === "Queue") return [`Queue/${object.name}: its limits fall away; jobs in it still run.`];
    return [];
  });
}

function describeCancelled(object: string, count: number): string {
  const jobs = count === 1 ? "1 queued job" : `${count} queued jobs`;
  return `${object}: ${jobs} would be cancelled (onRemove: cancel); what runs finishes.`;
}

function sameRuntime(desired: Desired, applied: AppliedState): boolean {
  const text = (runtime: unknown) => canonicalJson(runtime as Json);
  return text(desired.project.spec.runtime) === text(applied.project?.spec.runtime ?? null);
}
