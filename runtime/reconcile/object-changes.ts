import type { DeclaredObject, ProjectObject } from "../config/objects.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import type { AppliedState } from "../protocol/ports/revisions.ts";
import { toDeclaredFields } from "./declared-fields.ts";
import type { Desired } from "./desired.ts";
import { compareFields, type FieldChange } from "./field-changes.ts";

export interface ObjectChange {
  readonly action: "create" | "update" | "delete" | "rename" | "none";
  /** `Kind/name`. */
  readonly object: string;
  readonly fields: readonly FieldChange[];
}

/** Every object of either side, by kind and name. */
export function compareObjects(desired: Desired, applied: AppliedState): readonly ObjectChange[] {
  const before = byAddress(applied.project, applied.objects);
  const after = byAddress(desired.project, desired.objects);
  const addresses = [...new Set([...before.keys(), ...after.keys()])].sort();
  return addresses.map((address): ObjectChange => {
    const old = before.get(address);
    const next = after.get(address);
    const fields = compareFields(
      old === undefined ? null : toDeclaredFields(old),
      next === undefined ? null : toDeclaredFields(next),
    );
    if (old === undefined) return { action: "create", object: address, fields };
    if (next === undefined) return { action: "delete", object: address, fields };
    const all = [...compareBundles(next, desired, applied), ...fields];
    return { action: all.length === 0 ? "none" : "update", object: address, fields: all };
  });
}

/** Whether two versions of an object are the same, its place in the files included. */
export function isSameVersion(left: ProjectObject | DeclaredObject, right: ProjectObject | DeclaredObject): boolean {
  return canonicalJson(left as unknown as Json) === canonicalJson(right as unknown as Json);
}

export function addressOf(object: { readonly kind: string; readonly name: string }): string {
  return `${object.kind}/${object.name}`;
}

/** A handler's code is no field of the document: it shows as `/bundle`, by its hash. */
function compareBundles(
  object: ProjectObject | DeclaredObject,
  desired: Desired,
  applied: AppliedState,
): readonly FieldChange[] {
  if (object.kind !== "Job") return [];
  const before =
    applied.jobTypes.find(({ name, removed }) => name === object.name && !removed)?.definition.bundleHash ?? null;
  const after = desired.definitions.get(object.name)?.definition.bundleHash ?? null;
  return before === after ? [] : [{ path: "/bundle", before, after }];
}

function byAddress(project: ProjectObject | null, objects: readonly DeclaredObject[]) {
  const all: readonly (ProjectObject | DeclaredObject)[] = project === null ? objects : [project, ...objects];
  return new Map(all.map((object) => [addressOf(object), object]));
}
