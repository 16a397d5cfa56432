import { createHash } from "node:crypto";
import { canonicalJson, type Json } from "../core/json.ts";
import type { ConfigObject, DeclaredObject, ProjectObject } from "./objects.ts";

/** SHA-256 of what an object declares; the file and line it stands in don't count. Equal content, equal hash. */
export function hashObject(object: Omit<ConfigObject, "file" | "line">): string {
  const { kind, name, labels, description, spec } = object;
  return hashJson({ kind, name, labels, description, spec: spec as unknown as Json });
}

/** SHA-256 over the project and all objects with their positions; `extra` takes what else decides, such as bundles. */
export function hashState(state: {
  readonly project: ProjectObject;
  readonly objects: readonly DeclaredObject[];
  readonly extra?: Json;
}): string {
  const { project, objects, extra = null } = state;
  return hashJson({ project, objects, extra } as unknown as Json);
}

/** SHA-256 of a value's canonical text: the order of members does not count. */
export function hashJson(value: Json): string {
  return `sha256:${createHash("sha256").update(canonicalJson(value)).digest("hex")}`;
}
