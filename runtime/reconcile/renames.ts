import type { AppliedState } from "../protocol/ports/revisions.ts";
import type { Desired } from "./desired.ts";

export interface Rename {
  readonly from: string;
  readonly to: string;
}

/** What is in force, with the new names in place of the old ones. */
export function renameApplied(applied: AppliedState, renames: readonly Rename[]): AppliedState {
  if (renames.length === 0) return applied;
  const names = new Map(renames.map(({ from, to }) => [from, to]));
  const rename = <Named extends { readonly name: string }>(named: Named): Named => {
    const name = names.get(named.name);
    return name === undefined ? named : { ...named, name };
  };
  return {
    ...applied,
    objects: applied.objects.map((object) => (object.kind === "Schedule" ? rename(object) : object)),
    schedules: applied.schedules.map(rename),
  };
}

/**
 * Schedules that are declared under a new name and say which one they had: what is in force under it goes on under the
 * new one. A name that is still declared, or was taken by another schedule, is none of theirs.
 */
export function findRenames(desired: Desired, applied: Pick<AppliedState, "objects">): readonly Rename[] {
  const before = new Set(applied.objects.flatMap(({ kind, name }) => (kind === "Schedule" ? [name] : [])));
  const after = new Set(desired.objects.flatMap(({ kind, name }) => (kind === "Schedule" ? [name] : [])));
  const taken = new Set<string>();
  return desired.objects.flatMap((object): readonly Rename[] => {
    if (object.kind !== "Schedule" || before.has(object.name)) return [];
    const from = object.spec.previousNames?.find((name) => before.has(name) && !after.has(name) && !taken.has(name));
    if (from === undefined) return [];
    taken.add(from);
    return [{ from, to: object.name }];
  });
}
