import type { ErrorObject } from "ajv/dist/2020.js";
import { describeValue, nearestName, type Path, toPointer } from "./problems.ts";

/** A problem without its file and position. */
export interface SchemaProblem {
  readonly code:
    | "TURNO_CONFIG_UNKNOWN_KEY"
    | "TURNO_CONFIG_MISSING_KEY"
    | "TURNO_CONFIG_TYPE"
    | "TURNO_CONFIG_VALUE"
    | "TURNO_CONFIG_SECRET";
  readonly path: Path;
  /** Whether the key or the value is at fault. */
  readonly part: "key" | "value";
  readonly message: string;
  readonly hint: string | null;
}

interface Annotated {
  readonly expected?: string;
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly plannedProperties?: readonly string[];
  readonly plannedValues?: readonly unknown[];
  readonly type?: string | readonly string[];
}

const LATER = "comes in a later version";
/** Fields that tell where a secret lies, and where somebody may have put the secret itself: never quoted. */
const SECRET_PLACES = /\/(api\/keysFrom|database\/url)$/;
const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  object: "a mapping",
  array: "a list",
  null: "nothing",
};
/** YAML 1.1 read these as booleans; YAML 1.2 reads text. */
const OLD_BOOLEANS: Readonly<Record<string, string>> = {
  yes: "true",
  on: "true",
  y: "true",
  true: "true",
  no: "false",
  off: "false",
  n: "false",
  false: "false",
};

/** What the schema's engine found → one problem a mistake. */
export function translateErrors(errors: readonly ErrorObject[]): readonly SchemaProblem[] {
  const wrongTypes = new Set(
    errors.filter(({ keyword }) => keyword === "type").map(({ instancePath }) => instancePath),
  );
  const unknown = errors.filter(({ keyword }) => keyword === "additionalProperties");
  const problems: SchemaProblem[] = [];
  for (const error of errors) {
    // A value of the wrong type breaks its other rules too.
    if (error.keyword !== "type" && wrongTypes.has(error.instancePath)) continue;
    if (isExplained(error, unknown)) continue;
    const problem = translateError(error);
    if (problem !== null) problems.push(problem);
  }
  const seen = new Set<string>();
  return problems.map(withoutSecret).filter((problem) => {
    const place = `${problem.code} ${toPointer(problem.path)}`;
    return !seen.has(place) && seen.add(place);
  });
}

function withoutSecret(problem: SchemaProblem): SchemaProblem {
  if (problem.part === "key" || !SECRET_PLACES.test(toPointer(problem.path))) return problem;
  const message = problem.message.replace(/, found .*$/s, ", found something else (not shown)");
  return { ...problem, code: "TURNO_CONFIG_SECRET", message, hint: null };
}

function translateError(error: ErrorObject): SchemaProblem | null {
  const path = readPath(error.instancePath);
  const schema = (error.parentSchema ?? {}) as Annotated;
  switch (error.keyword) {
    case "additionalProperties":
      return describeUnknownKey(path, String(error.params.additionalProperty), schema);
    case "required":
      // Each branch of a choice reports its own; the choice says it once.
      return /\/oneOf\/\d+\/required$/.test(error.schemaPath) ? null : describeMissing(path, error);
    case "oneOf":
      return describeChoice(path, error);
    case "propertyNames":
      return null;
    case "type":
      return describeType(path, error, schema);
    case "enum":
    case "const":
      return describeEnum(path, error, schema);
    default:
      return describeValueProblem(path, error, schema);
  }
}

function describeUnknownKey(path: Path, key: string, schema: Annotated): SchemaProblem {
  const at = { code: "TURNO_CONFIG_UNKNOWN_KEY", path: [...path, key], part: "key" } as const;
  if (schema.plannedProperties?.includes(key) === true) {
    return { ...at, message: `the field "${key}" is not known to this version; it ${LATER}`, hint: null };
  }
  const known = Object.keys(schema.properties ?? {});
  const nearest = nearestName(key, known);
  const shown = key.length > 60 ? `${key.slice(0, 60)}…` : key;
  const list = nearest === null ? `; expected one of ${known.join(", ")}` : "";
  return { ...at, message: `the field "${shown}" is not known to this version${list}`, hint: nearest };
}

function describeMissing(path: Path, error: ErrorObject): SchemaProblem {
  const key = String(error.params.missingProperty);
  const message = `the field "${key}" is missing`;
  return { code: "TURNO_CONFIG_MISSING_KEY", path: [...path, key], part: "key", message, hint: null };
}

/** The only choice the schemas have is between required fields. */
function describeChoice(path: Path, error: ErrorObject): SchemaProblem {
  const names = (error.schema as readonly { readonly required: readonly string[] }[]).flatMap(
    ({ required }) => required,
  );
  const given = names.filter((name) => Object.hasOwn(error.data as object, name));
  const expected = `expected exactly one of ${names.join(", ")}`;
  if (given.length === 0) {
    return { code: "TURNO_CONFIG_MISSING_KEY", path, part: "key", message: `${expected}, found none`, hint: null };
  }
  const at = [...path, given.at(-1) ?? ""];
  const message = `${expected}, found ${given.join(" and ")}`;
  return { code: "TURNO_CONFIG_VALUE", path: at, part: "key", message, hint: "Keep one of them." };
}

function describeType(path: Path, error: ErrorObject, schema: Annotated): SchemaProblem {
  const types = [schema.type ?? "string"].flat();
  const expected = schema.expected ?? types.map((type) => TYPE_NAMES[type] ?? type).join(" or ");
  const data: unknown = error.data;
  const later = Array.isArray(data) && path.at(-1) === "cron" ? `; a list of expressions ${LATER}` : "";
  return {
    code: "TURNO_CONFIG_TYPE",
    path,
    part: "value",
    message: `expected ${expected}, found ${describeValue(data)}${later}`,
    hint: hintForType(types, data),
  };
}

function hintForType(types: readonly string[], data: unknown): string | null {
  if (types.includes("boolean") && typeof data === "string") return OLD_BOOLEANS[data.toLowerCase()] ?? null;
  if (types.includes("integer") && typeof data === "string" && /^-?\d+$/.test(data)) return data;
  const plain = typeof data === "number" || typeof data === "boolean";
  return types.includes("string") && plain ? JSON.stringify(String(data)) : null;
}

function describeEnum(path: Path, error: ErrorObject, schema: Annotated): SchemaProblem {
  const allowed = error.keyword === "const" ? [error.schema] : (error.schema as readonly unknown[]);
  const data: unknown = error.data;
  const at = { code: "TURNO_CONFIG_VALUE", path, part: "value" } as const;
  if (schema.plannedValues?.includes(data) === true) {
    return { ...at, message: `${describeValue(data)} is not known to this version; it ${LATER}`, hint: null };
  }
  const one = allowed.length === 1 ? "" : "one of ";
  const message = `expected ${one}${allowed.join(", ")}, found ${describeValue(data)}`;
  return { ...at, message, hint: typeof data === "string" ? nearestName(data, allowed.map(String)) : null };
}

function describeValueProblem(path: Path, error: ErrorObject, schema: Annotated): SchemaProblem {
  if (error.propertyName !== undefined) {
    const message = `expected ${schema.expected ?? "another key"}, found ${describeValue(error.propertyName)}`;
    return { code: "TURNO_CONFIG_VALUE", path: [...path, error.propertyName], part: "key", message, hint: null };
  }
  const found = describeValue(error.data);
  const bound = String(error.schema);
  const sentences: Readonly<Record<string, string>> = {
    pattern: `expected ${schema.expected ?? `text that matches ${bound}`}, found ${found}`,
    durationMinimum: `expected at least ${bound}, found ${found}`,
    durationMaximum: `expected at most ${bound}, found ${found}`,
    minimum: `expected at least ${bound}, found ${found}`,
    maximum: `expected at most ${bound}, found ${found}`,
    minLength:
      bound === "1" ? `expected ${schema.expected ?? "text"}, found nothing` : `expected at least ${bound} characters`,
    maxLength: `expected at most ${bound} characters, found ${String(error.data).length}`,
    minItems: `expected at least ${bound} item${bound === "1" ? "" : "s"}`,
    maxItems: `expected at most ${bound} item${bound === "1" ? "" : "s"}`,
    maxProperties: `expected at most ${bound} fields`,
  };
  const message = sentences[error.keyword] ?? error.message ?? "not valid";
  return { code: "TURNO_CONFIG_VALUE", path, part: "value", message, hint: null };
}

/** Whether a missing field is only the other side of a misspelt or planned one beside it. */
function isExplained(error: ErrorObject, unknown: readonly ErrorObject[]): boolean {
  if (error.keyword !== "required" && error.keyword !== "oneOf") return false;
  const missing =
    error.keyword === "required"
      ? [String(error.params.missingProperty)]
      : (error.schema as readonly { readonly required: readonly string[] }[]).flatMap(({ required }) => required);
  if (error.keyword === "oneOf" && missing.some((name) => Object.hasOwn(error.data as object, name))) return false;
  return unknown.some((other) => {
    if (other.instancePath !== error.instancePath) return false;
    const key = String(other.params.additionalProperty);
    const schema = (other.parentSchema ?? {}) as Annotated;
    const nearest = nearestName(key, Object.keys(schema.properties ?? {}));
    return schema.plannedProperties?.includes(key) === true || (nearest !== null && missing.includes(nearest));
  });
}

function readPath(pointer: string): Path {
  return pointer
    .split("/")
    .slice(1)
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}
