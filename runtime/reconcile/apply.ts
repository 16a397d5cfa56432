import { hashObject } from "../config/hash.ts";
import type { DeclaredObject, ProjectObject, ScheduleObject } from "../config/objects.ts";
import { TurnoError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type {
  AppliedState,
  Provenance,
  RevisionStore,
  RevisionSummary,
  RevisionWrites,
  ScheduleWrite,
  SourceIdentity,
} from "../protocol/ports/revisions.ts";
import { hashTiming } from "../time/timing-hash.ts";
import { writeChanges } from "./change-words.ts";
import type { Desired } from "./desired.ts";
import { findRefusals } from "./guards.ts";
import { decideNextFire } from "./next-fire-decision.ts";
import { addressOf, isSameVersion } from "./object-changes.ts";
import { type Plan, planChanges } from "./plan.ts";
import { findCancelled } from "./removals.ts";
import { findRenames, renameApplied } from "./renames.ts";

export interface ApplyRequest {
  readonly desired: Desired;
  readonly source: SourceIdentity;
  readonly provenance: Provenance;
  /** Who or what applies, for the history. */
  readonly appliedBy: string;
  /** The revision that was in force when the files were compared with it; null: none was. */
  readonly base: number | null;
  /** What the guards would refuse was confirmed. */
  readonly confirmDeletes: boolean;
  /** The installation's objects may be taken from another source. */
  readonly takeOver: boolean;
  /** Absent: what is applied comes from files. */
  readonly rollback?: {
    readonly to: number;
    /** Content of the source that is held back. */
    readonly held: string | null;
  };
}

export type ApplyOutcome =
  | { readonly kind: "applied"; readonly revision: RevisionSummary; readonly plan: Plan }
  | { readonly kind: "unchanged"; readonly revision: RevisionSummary };

/**
 * Brings the files into force in one transaction, or changes nothing. Throws TURNO_SOURCE_OWNED, TURNO_SOURCE_STALE
 *, TURNO_INCLUDE_EMPTY or what guards refuse, and what the store throws. Repeating it after an unknown outcome is safe: what was applied
 * is found unchanged.
 */
export async function applyDesired(store: RevisionStore, request: ApplyRequest): Promise<ApplyOutcome> {
  let plan: Plan | null = null;
  let unchanged: RevisionSummary | null = null;
  const revision = await store.applyRevision((locked) => {
    checkOwner(request, locked);
    if (
      locked.inForce !== null &&
      locked.inForce.contentHash === request.desired.contentHash &&
      !isTakeOver(request, locked)
    ) {
      unchanged = locked.inForce;
      return null;
    }
    checkBase(request, locked);
    checkIncludes(request, locked);
    checkGuards(request, locked);
    plan = planChanges(request.desired, locked);
    return decideWrites(request, locked, plan);
  });
  if (revision !== null && plan !== null) return { kind: "applied", revision, plan };
  if (unchanged !== null) return { kind: "unchanged", revision: unchanged };
  throw new TurnoError(
    "TURNO_ASSERTION_FAILED",
    "the store decided neither to write nor to leave the revision in force",
  );
}

/**
 * Whether the includes match no file now, which would remove what such files declared: a wrong folder or an empty
 * checkout looks like that. Files that declare nothing any more, or whose samples are switched off, say it themselves.
 */
export function removesEverything(desired: Desired, applied: Pick<AppliedState, "objects">): boolean {
  if (desired.includedFiles > 0) return false;
  const kept = new Set(desired.objects.map(addressOf));
  return applied.objects.some((object) => object.file !== "turno.yaml" && !kept.has(addressOf(object)));
}

/** Whether the installation's objects belong to another source than this one. */
export function isOwnedByOther(source: SourceIdentity, applied: Pick<AppliedState, "owner">): boolean {
  const { owner } = applied;
  return owner !== null && (owner.name !== source.name || owner.origin !== source.origin);
}

function isTakeOver(request: ApplyRequest, locked: AppliedState): boolean {
  return request.takeOver && isOwnedByOther(request.source, locked);
}

function checkOwner({ source, takeOver }: ApplyRequest, locked: AppliedState): void {
  if (takeOver || !isOwnedByOther(source, locked)) return;
  throw new TurnoError(
    "TURNO_SOURCE_OWNED",
    `expected the installation's objects to belong to ${source.origin}, found them applied from ${locked.owner?.origin}`,
    { hint: "Use another database for these files, or apply them with --take-over." },
  );
}

function checkBase({ base }: ApplyRequest, locked: AppliedState): void {
  const found = locked.inForce?.number ?? null;
  if (found === base) return;
  const describe = (revision: number | null) => (revision === null ? "no revision" : `revision ${revision}`);
  throw new TurnoError(
    "TURNO_SOURCE_STALE",
    `expected ${describe(base)} to be in force, found ${describe(found)}: somebody applied meanwhile`,
    { hint: "Look at the plan again, then apply." },
  );
}

function checkIncludes({ desired, confirmDeletes }: ApplyRequest, locked: AppliedState): void {
  if (confirmDeletes || !removesEverything(desired, locked)) return;
  throw new TurnoError(
    "TURNO_INCLUDE_EMPTY",
    `expected files under ${desired.project.spec.include.join(", ")}, found none; applying this would remove all ${locked.objects.length} objects`,
    { hint: "Check spec.include in turno.yaml; if everything is to go, apply with --confirm-deletes." },
  );
}

function checkGuards({ desired, confirmDeletes }: ApplyRequest, locked: AppliedState): void {
  const refusal = findRefusals(desired, locked).find(({ code }) => !confirmDeletes || code === "TURNO_GUARD_PROTECTED");
  if (refusal !== undefined) throw refusal;
}

function decideWrites(request: ApplyRequest, locked: AppliedState, plan: Plan): RevisionWrites {
  const { desired } = request;
  const renames = findRenames(desired, locked);
  const renamed = renameApplied(locked, renames);
  const known = new Map(allObjects(locked.project, locked.objects).map((object) => [addressOf(object), object]));
  const wanted = new Set(allObjects(desired.project, desired.objects).map(addressOf));
  const versions = allObjects(desired.project, desired.objects).filter((object) => {
    const before = known.get(addressOf(object));
    return before === undefined || !isSameVersion(before, object);
  });
  const rewritten = new Set(versions.map(addressOf));
  const removed = allObjects(null, locked.objects).filter((object) => !wanted.has(addressOf(object)));
  const namesRemoved = (kind: string) => removed.flatMap((object) => (object.kind === kind ? [object.name] : []));
  const jobTypes = decideJobTypes(desired, locked, rewritten);
  const removedSchedules = renamed.schedules.flatMap(({ name }) => (wanted.has(`Schedule/${name}`) ? [] : [name]));
  return {
    source: request.source,
    contentHash: desired.contentHash,
    provenance: request.provenance,
    appliedBy: request.appliedBy,
    rollbackOf: request.rollback?.to ?? null,
    heldContent: request.rollback?.held ?? null,
    changes: writeChanges(plan.changes, desired) as unknown as Json,
    versions: versions.map((object) => ({ ...object, specHash: hashObject(object) })),
    removed: removed.map(({ kind, name }) => ({ kind, name })),
    bundles: desired.bundles,
    definitions: jobTypes.map(({ name, definitionHash }) => ({
      hash: definitionHash,
      definition: definitionOf(desired, name),
    })),
    jobTypes,
    removedJobTypes: locked.jobTypes.flatMap(({ name, removed }) =>
      removed || desired.definitions.has(name) ? [] : [name],
    ),
    queues: decideQueues(desired, jobTypes, rewritten),
    removedQueues: namesRemoved("Queue"),
    schedules: desired.objects.flatMap((object) =>
      object.kind === "Schedule" ? decideSchedule(object, renamed, rewritten.has(addressOf(object))) : [],
    ),
    renamedSchedules: renames,
    removedSchedules,
    cancelled: findCancelled(desired, renamed.objects),
  };
}

/** Job types whose document or definition is another one; a removed type that is declared again comes back. */
function decideJobTypes(
  desired: Desired,
  locked: AppliedState,
  rewritten: ReadonlySet<string>,
): RevisionWrites["jobTypes"] {
  const known = new Map(locked.jobTypes.map((type) => [type.name, type]));
  return [...desired.definitions].flatMap(([name, { hash, definition }]) => {
    const before = known.get(name);
    const same = before !== undefined && !before.removed && before.definitionHash === hash;
    return same && !rewritten.has(`Job/${name}`) ? [] : [{ name, definitionHash: hash, queue: definition.queue }];
  });
}

/** Declared queues that changed, and rows for queues that job types use without declaring them. */
function decideQueues(
  desired: Desired,
  jobTypes: RevisionWrites["jobTypes"],
  rewritten: ReadonlySet<string>,
): RevisionWrites["queues"] {
  const declared = desired.objects.flatMap((object) => (object.kind === "Queue" ? [object] : []));
  const names = new Set(declared.map(({ name }) => name));
  const used = new Set(jobTypes.map(({ queue }) => queue).filter((queue) => !names.has(queue)));
  return [
    ...declared
      .filter((queue) => rewritten.has(addressOf(queue)))
      .map(({ name, spec }) => ({ name, concurrency: spec.concurrency, suspended: spec.suspend, declared: true })),
    ...[...used].map((name) => ({ name, concurrency: null, suspended: false, declared: false })),
  ];
}

function decideSchedule(schedule: ScheduleObject, locked: AppliedState, rewritten: boolean): readonly ScheduleWrite[] {
  const { name, spec } = schedule;
  const before = locked.schedules.find((known) => known.name === name);
  const fire = decideNextFire(schedule, locked);
  const timingHash = hashTiming(spec.timing);
  const same = before !== undefined && before.timingHash === timingHash && before.suspended === spec.suspend;
  if (same && !rewritten && fire.kind === "keep") return [];
  return [
    {
      name,
      jobType: spec.job,
      spec,
      timingHash,
      suspended: spec.suspend,
      next: fire.kind === "keep" ? { kind: "keep" } : { kind: "set", at: fire.at },
      firedColdStart: decideColdStart(schedule, locked),
    },
  ];
}

/**
 * `runOnStart` fires once a cold start. One that is new, newly switched on or no longer suspended counts as fired for
 * the present one: an edit never fires a job. What the very first revision declares has its first start before it.
 */
function decideColdStart(schedule: ScheduleObject, locked: AppliedState): number | null {
  if (locked.inForce === null) return 0;
  const before = locked.objects.find((object) => object.kind === "Schedule" && object.name === schedule.name);
  const wasWatched = before?.kind === "Schedule" && before.spec.runOnStart && !before.spec.suspend;
  return wasWatched ? null : locked.coldStarts;
}

function definitionOf(desired: Desired, name: string) {
  const found = desired.definitions.get(name);
  if (found === undefined) throw new TurnoError("TURNO_ASSERTION_FAILED", `job type ${name} has no definition`);
  return found.definition;
}

function allObjects(
  project: ProjectObject | null,
  objects: readonly DeclaredObject[],
): readonly (ProjectObject | DeclaredObject)[] {
  return project === null ? objects : [project, ...objects];
}
