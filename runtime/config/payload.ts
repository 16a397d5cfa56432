import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describeError } from "../core/errors.ts";
import { canonicalJson, type Json, type JsonObject } from "../core/json.ts";
import { escapePointer } from "../core/unstorable.ts";
import { describeUnsafePattern } from "./pattern-safety.ts";
import { describeValue, nearestName } from "./problems.ts";
import { findKeywords, findPatterns } from "./schema-walk.ts";

/** A member of a payload, or of a payload's schema, that is not as expected; the pointer (RFC 6901) starts at its root. */
export interface PayloadProblem {
  readonly pointer: string;
  readonly message: string;
}

export type PayloadSchema = JsonObject | boolean;

export type CompiledPayloadSchema =
  /** An empty list means that the payload fits. Never throws. */
  | { readonly ok: true; validate(payload: Json): readonly PayloadProblem[] }
  | { readonly ok: false; readonly problems: readonly PayloadProblem[] };

/** Text that patterns are tried on is at most this long: some patterns take time with its square. */
const MAX_PATTERN_TEXT = 8192;
const MAX_PROBLEMS = 100;
/** The ones of JSON Schema that the engine reads without having a rule for them. */
const PLAIN_KEYWORDS =
  "$ref $dynamicRef $anchor $dynamicAnchor $defs $comment $vocabulary definitions title description default examples " +
  "deprecated readOnly writeOnly contentEncoding contentMediaType contentSchema";
const KEYWORDS = new Set(
  (
    "type properties required additionalProperties items prefixItems enum const pattern format minimum maximum " +
    "exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems contains " +
    "minContains maxContains minProperties maxProperties patternProperties propertyNames dependentRequired " +
    "dependentSchemas allOf anyOf oneOf not if then else unevaluatedProperties unevaluatedItems " +
    PLAIN_KEYWORDS
  ).split(" "),
);

/**
 * A JSON Schema (2020-12, every reference inside it) → a validator. Unknown keywords and formats, and patterns that
 * can take exponential time, are refused. Compiling takes milliseconds: keep the result.
 */
export function compilePayloadSchema(schema: PayloadSchema): CompiledPayloadSchema {
  const unsafe = findPatterns(schema).flatMap(({ pointer, pattern }) => {
    const reason = describeUnsafePattern(pattern);
    return reason === null ? [] : [{ pointer, message: `the pattern ${describeValue(pattern)} ${reason}` }];
  });
  const engine = sharedEngine();
  const unknown = findKeywords(schema).flatMap(({ pointer, keyword }) => {
    if (KEYWORDS.has(keyword) || engine.getKeyword(keyword) !== false) return [];
    const nearest = nearestName(keyword, KEYWORDS);
    const hint = nearest === null ? "" : `; did you mean ${nearest}?`;
    return [{ pointer, message: `the keyword "${keyword}" is not one of JSON Schema 2020-12${hint}` }];
  });
  if (unsafe.length + unknown.length > 0) return { ok: false, problems: [...unknown, ...unsafe] };
  try {
    if (engine.validateSchema(schema as Record<string, unknown>) !== true) {
      return { ok: false, problems: firstPerPlace(describeErrors(engine.errors ?? [])) };
    }
    const validator = engine.compile(schema as Record<string, unknown>);
    return { ok: true, validate: (payload) => runValidator(validator, payload) };
  } catch (error) {
    return { ok: false, problems: [{ pointer: "", message: describeError(error) }] };
  } finally {
    // The engine keeps what it compiled for ever otherwise.
    if (typeof schema === "object") engine.removeSchema(schema as Record<string, unknown>);
  }
}

/** Validates payloads against schemas as they come, keeping the compiled form of the latest ones by content. */
export function createPayloadValidator(
  keep = 500,
): (schema: PayloadSchema, payload: Json) => readonly PayloadProblem[] {
  const byContent = new Map<string, CompiledPayloadSchema>();
  // The jobs of one batch share their schema: it is written out and looked up once.
  const byObject = new WeakMap<object, CompiledPayloadSchema>();
  const compile = (schema: PayloadSchema): CompiledPayloadSchema => {
    const key = canonicalJson(schema);
    const found = byContent.get(key) ?? compilePayloadSchema(schema);
    byContent.delete(key);
    byContent.set(key, found);
    if (byContent.size > keep) byContent.delete(byContent.keys().next().value ?? key);
    return found;
  };
  return (schema, payload) => {
    let found = typeof schema === "object" ? byObject.get(schema) : undefined;
    found ??= compile(schema);
    if (typeof schema === "object") byObject.set(schema, found);
    if (found.ok) return found.validate(payload);
    return [{ pointer: "", message: `the job's payload schema cannot be used: ${found.problems[0]?.message ?? ""}` }];
  };
}

let engine: Ajv2020 | null = null;

function sharedEngine(): Ajv2020 {
  if (engine !== null) return engine;
  engine = new Ajv2020({
    allErrors: true,
    strictTypes: false,
    strictTuples: false,
    logger: false,
    code: { regExp: Object.assign(boundedPattern, { code: "" }) },
  });
  // Keywords of OpenAPI and of editors that only describe.
  engine.addVocabulary(["example", "markdownDescription", "enumDescriptions", "discriminator", "xml", "externalDocs"]);
  addFormats.default(engine);
  return engine;
}

function boundedPattern(source: string, flags: string): RegExp {
  const pattern = new RegExp(source, flags);
  const test = pattern.test.bind(pattern);
  pattern.test = (text: string) => text.length <= MAX_PATTERN_TEXT && test(text);
  return pattern;
}

function runValidator(validator: ValidateFunction, payload: Json): readonly PayloadProblem[] {
  try {
    return validator(payload) ? [] : describeErrors(validator.errors ?? []);
  } catch (error) {
    return [{ pointer: "", message: `the payload could not be checked: ${describeError(error)}` }];
  }
}

/** Alternatives of the meta-schema each complain about one value. */
function firstPerPlace(problems: readonly PayloadProblem[]): readonly PayloadProblem[] {
  return problems.filter(({ pointer }, index) => problems.findIndex((other) => other.pointer === pointer) === index);
}

function describeErrors(errors: readonly ErrorObject[]): readonly PayloadProblem[] {
  // A choice reports what is wrong in each branch; the branches' own errors stand before it and say more.
  return errors.slice(0, MAX_PROBLEMS).map((error) => {
    const { instancePath, keyword, params } = error;
    if (keyword === "additionalProperties" || keyword === "unevaluatedProperties") {
      const name = String(params.additionalProperty ?? params.unevaluatedProperty);
      return { pointer: `${instancePath}/${escapePointer(name)}`, message: "is not a known member" };
    }
    if (keyword === "required") {
      const name = String(params.missingProperty);
      return { pointer: `${instancePath}/${escapePointer(name)}`, message: "is missing" };
    }
    if (keyword === "enum") {
      const values = (params.allowedValues as readonly unknown[]).slice(0, 20).map((value) => JSON.stringify(value));
      return { pointer: instancePath, message: `must be one of ${values.join(", ")}` };
    }
    return { pointer: instancePath, message: error.message ?? "is not valid" };
  });
}
