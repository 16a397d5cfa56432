import { canonicalJson, type Json, type JsonObject } from "../core/json.ts";
import { escapePointer } from "../core/unstorable.ts";

/** One difference; null stands for a field that is not there. */
export interface FieldChange {
  /** JSON Pointer into the document, as its author writes it. */
  readonly path: string;
  readonly before: Json;
  readonly after: Json;
}

export const HIDDEN = "(hidden)";
const SECRET_NAME =
  /secret|password|passwd|passphrase|token|api-?_?key|private-?_?key|credential|authorization|connection-?_?string/i;
/** `${env:NAME}` and `${file:/path}` name where a secret lies and are none themselves. */
const REFERENCE = /^\$\{(env|file):[^}]+\}$/;

/** The differing leaves, by path; lists are compared as a whole. Values that may be secrets are not shown. */
export function compareFields(before: JsonObject | null, after: JsonObject | null): readonly FieldChange[] {
  const changes: FieldChange[] = [];
  collect({ before: before ?? {}, after: after ?? {}, path: [], changes });
  return changes;
}

/** A value as it may be shown: under a secret's name only that it is set, and addresses without their password. */
export function hideSecrets(path: readonly string[], value: Json): Json {
  if (value === null) return null;
  if (typeof value === "string" && REFERENCE.test(value)) return value;
  if (path.some((segment) => SECRET_NAME.test(segment))) return HIDDEN;
  if (typeof value === "string") return value.replace(/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, `$1${HIDDEN}@`);
  if (Array.isArray(value)) return value.map((item: Json) => hideSecrets(path, item));
  if (typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, hideSecrets([...path, key], item)]));
}

interface Comparison {
  readonly before: Json;
  readonly after: Json;
  readonly path: readonly string[];
  readonly changes: FieldChange[];
}

function collect({ before, after, path, changes }: Comparison): void {
  if (isBranch(before, after)) {
    const left = (before ?? {}) as JsonObject;
    const right = (after ?? {}) as JsonObject;
    for (const key of [...new Set([...Object.keys(left), ...Object.keys(right)])].sort()) {
      collect({ before: own(left, key), after: own(right, key), path: [...path, key], changes });
    }
    return;
  }
  if (canonicalJson(before) === canonicalJson(after)) return;
  const pointer = path.map((segment) => `/${escapePointer(segment)}`).join("");
  changes.push({ path: pointer, before: hideSecrets(path, before), after: hideSecrets(path, after) });
}

/** Both are mappings, or one is and the other is not there; an empty mapping that comes or goes is a leaf. */
function isBranch(before: Json, after: Json): boolean {
  const mapping = (value: Json) => typeof value === "object" && value !== null && !Array.isArray(value);
  if (mapping(before) && mapping(after)) return true;
  const only = before === null ? after : after === null ? before : null;
  return mapping(only) && Object.keys(only as JsonObject).length > 0;
}

function own(value: JsonObject, key: string): Json {
  return Object.hasOwn(value, key) ? (value[key] ?? null) : null;
}
