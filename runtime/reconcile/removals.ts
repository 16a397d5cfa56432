import type { DeclaredObject } from "../config/objects.ts";
import type { RemovedNames } from "../protocol/ports/revisions.ts";
import type { Desired } from "./desired.ts";
import { addressOf } from "./object-changes.ts";

/**
 * What goes with `onRemove: cancel`. The object in force decides: the files don't speak of it any more. `applied` with
 * the new names of renamed schedules, which are not removed.
 */
export function findCancelled(desired: Desired, applied: readonly DeclaredObject[]): RemovedNames {
  const wanted = new Set(desired.objects.map(addressOf));
  const cancelled = applied.filter((object) => cancelsJobs(object) && !wanted.has(addressOf(object)));
  const namesOf = (kind: DeclaredObject["kind"]) =>
    cancelled.flatMap((object) => (object.kind === kind ? [object.name] : []));
  return { jobTypes: namesOf("Job"), schedules: namesOf("Schedule") };
}

/** Whether its removal cancels jobs. */
export function cancelsJobs(object: DeclaredObject): boolean {
  return (object.kind === "Job" || object.kind === "Schedule") && object.spec.onRemove === "cancel";
}
