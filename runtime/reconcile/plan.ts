import type { AppliedState } from "../protocol/ports/revisions.ts";
import { describeConsequences } from "./consequences.ts";
import type { Desired } from "./desired.ts";
import { compareObjects, type ObjectChange } from "./object-changes.ts";
import { findRenames, type Rename, renameApplied } from "./renames.ts";
import type { Misfits } from "./waiting-payloads.ts";

/** What an apply would do; the members are those of `turno plan --json`. */
export interface Plan {
  readonly base: { readonly revision: number | null };
  /** By kind and name; `none` for objects that stay as they are. */
  readonly changes: readonly ObjectChange[];
  readonly consequences: readonly string[];
  readonly warnings: readonly string[];
}

/** What was counted of the jobs that are there, by type. */
export interface JobCounts {
  /** Unfinished jobs of types that go. */
  readonly live: ReadonlyMap<string, number>;
  /** Jobs that the apply would cancel, by the object that goes. Absent: not counted. */
  readonly cancelled?: ReadonlyMap<string, number>;
  readonly misfits: ReadonlyMap<string, Misfits>;
}

const NOTHING_COUNTED: JobCounts = { live: new Map(), misfits: new Map() };

/** Compares what the files ask for with what is in force. Pure: the time is the database's, in `applied`. */
export function planChanges(desired: Desired, applied: AppliedState, jobs: JobCounts = NOTHING_COUNTED): Plan {
  const renames = findRenames(desired, applied);
  const renamed = renameApplied(applied, renames);
  const changes = compareObjects(desired, renamed).map((change) => markRename(change, renames));
  return {
    base: { revision: applied.inForce?.number ?? null },
    changes,
    ...describeConsequences({ desired, applied: renamed, changes, jobs }),
  };
}

/** A renamed schedule shows its name as the first of the fields that change. */
function markRename(change: ObjectChange, renames: readonly Rename[]): ObjectChange {
  const rename = renames.find(({ to }) => change.object === `Schedule/${to}`);
  if (rename === undefined) return change;
  const name = { path: "/metadata/name", before: rename.from, after: rename.to };
  return { ...change, action: "rename", fields: [name, ...change.fields] };
}

/** Whether an apply would change anything that the plan shows. */
export function hasChanges(plan: Plan): boolean {
  return plan.changes.some(({ action }) => action !== "none");
}
