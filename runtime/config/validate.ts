import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import { parseDuration } from "../core/duration.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { ObjectKind } from "./objects.ts";
import {
  type CalendarDocument,
  type JobDocument,
  KINDS,
  type PolicyDocument,
  type ProjectDocument,
  type QueueDocument,
  type RuntimeDocument,
  type ScheduleDocument,
  TURNO_SCHEMA,
} from "./schema.generated.ts";
import { type SchemaProblem, translateErrors } from "./schema-problems.ts";

/** The documents of each kind, valid and with their defaults filled in. */
export interface DocumentOf {
  readonly Project: ProjectDocument;
  readonly Queue: QueueDocument;
  readonly Policy: PolicyDocument;
  readonly Job: JobDocument;
  readonly Schedule: ScheduleDocument;
  readonly Calendar: CalendarDocument;
}

export type Checked<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly problems: readonly SchemaProblem[] };

/** Kinds of the contract that this version does not have. */
export const PLANNED_KINDS: readonly string[] = ["Trigger", "Workflow"];

/** Checks a document against its kind's schema. The value given is left as it is; defaults go into a copy. */
export function validateDocument<Kind extends ObjectKind>(kind: Kind, value: JsonObject): Checked<DocumentOf[Kind]> {
  return check<DocumentOf[Kind]>(kind, value);
}

/** Checks `spec.runtime` alone, as it is after the environment's overrides. */
export function validateRuntime(value: JsonObject): Checked<RuntimeDocument> {
  return check<RuntimeDocument>("runtime", value);
}

export function isKind(text: unknown): text is ObjectKind {
  return typeof text === "string" && (KINDS as readonly string[]).includes(text);
}

function check<Value>(definition: string, value: JsonObject): Checked<Value> {
  const validator = findValidator(definition);
  // Values are shared between the places that an alias stands in; defaults must not travel along.
  const copy: unknown = JSON.parse(JSON.stringify(value));
  if (validator(copy)) return { ok: true, value: copy as Value };
  return { ok: false, problems: translateErrors((validator.errors ?? []) as ErrorObject[]) };
}

let engine: Ajv2020 | null = null;

function findValidator(definition: string): ValidateFunction {
  engine ??= createEngine();
  const validator = engine.getSchema(`turno#/$defs/${definition}`);
  if (validator === undefined) throw new Error(`the schema has no definition ${definition}`);
  return validator;
}

function createEngine(): Ajv2020 {
  const ajv = new Ajv2020({
    allErrors: true,
    verbose: true,
    useDefaults: true,
    allowUnionTypes: true,
    // A limit beside a `$ref` stands without a type of its own.
    strictTypes: false,
  });
  ajv.addVocabulary(["expected", "plannedProperties", "plannedValues", "unit"]);
  for (const [keyword, fits] of [
    ["durationMinimum", (ms: number, bound: number) => ms >= bound],
    ["durationMaximum", (ms: number, bound: number) => ms <= bound],
  ] as const) {
    ajv.addKeyword({
      keyword,
      type: "string",
      schemaType: "string",
      errors: false,
      validate: (bound: string, text: string) => {
        const ms = readDuration(text);
        return ms === null || fits(ms, readDuration(bound) ?? 0);
      },
    });
  }
  ajv.addSchema(TURNO_SCHEMA as Record<string, Json>, "turno");
  return ajv;
}

/** Milliseconds; infinite beyond what Turno counts; null for what the pattern refuses anyway. */
function readDuration(text: string): number | null {
  try {
    return parseDuration(text);
  } catch {
    return /^\d{1,12}(ms|s|m|h|d)$/.test(text) ? Number.POSITIVE_INFINITY : null;
  }
}
