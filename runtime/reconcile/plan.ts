import type { AppliedState } from "../protocol/ports/revisions.ts";
import { describeConsequences } from "./consequences.ts";
import type { Desired } from "./desired.ts";
import { compareObjects, type ObjectChange } from "./object-changes.ts";
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
  readonly misfits: ReadonlyMap<string, Misfits>;
}

const NOTHING_COUNTED: JobCounts = { live: new Map(), misfits: new Map() };

/** Compares what the files ask for with what is in force. Pure: the time is the database's, in `applied`. */
export function planChanges(desired: Desired, applied: AppliedState, jobs: JobCounts = NOTHING_COUNTED): Plan {
  const changes = compareObjects(desired, applied);
  return {
    base: { revision: applied.inForce?.number ?? null },
    changes,
    ...describeConsequences({ desired, applied, changes, jobs }),
  };
}

/** Whether an apply would change anything that the plan shows. */
export function hasChanges(plan: Plan): boolean {
  return plan.changes.some(({ action }) => action !== "none");
}
