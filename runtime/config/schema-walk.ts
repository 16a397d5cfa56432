import type { Json, JsonObject } from "../core/json.ts";
import { escapePointer } from "../core/unstorable.ts";

const SCHEMA_MAPS = new Set(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]);
const SCHEMA_LISTS = new Set(["allOf", "anyOf", "oneOf", "prefixItems"]);
const SCHEMAS = new Set([
  "additionalProperties",
  "contains",
  "contentSchema",
  "else",
  "if",
  "items",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties",
]);

/** Rebuilds a JSON Schema with every subschema passed through `visit`; data such as `const` or `examples` stays. */
export function mapSchema(
  schema: Json,
  visit: (schema: JsonObject, pointer: string) => JsonObject,
  pointer = "",
): Json {
  if (!isMapping(schema)) return schema;
  const members = Object.entries(visit(schema, pointer)).map(([keyword, value]): [string, Json] => {
    const below = `${pointer}/${escapePointer(keyword)}`;
    if (SCHEMAS.has(keyword)) return [keyword, mapSchema(value, visit, below)];
    if (SCHEMA_LISTS.has(keyword) && isList(value)) {
      return [keyword, value.map((item, index) => mapSchema(item, visit, `${below}/${index}`))];
    }
    if (SCHEMA_MAPS.has(keyword) && isMapping(value)) {
      const entries = Object.entries(value).map(([name, item]) => [
        name,
        mapSchema(item, visit, `${below}/${escapePointer(name)}`),
      ]);
      return [keyword, Object.fromEntries(entries) as JsonObject];
    }
    return [keyword, value];
  });
  return Object.fromEntries(members);
}

/** Regular expressions of a schema and where they stand. */
export function findPatterns(schema: Json): readonly { readonly pointer: string; readonly pattern: string }[] {
  const found: { pointer: string; pattern: string }[] = [];
  mapSchema(schema, (subschema, pointer) => {
    const { pattern, patternProperties } = subschema;
    if (typeof pattern === "string") found.push({ pointer: `${pointer}/pattern`, pattern });
    if (patternProperties !== undefined && isMapping(patternProperties)) {
      for (const key of Object.keys(patternProperties)) {
        found.push({ pointer: `${pointer}/patternProperties/${escapePointer(key)}`, pattern: key });
      }
    }
    return subschema;
  });
  return found;
}

/** Every keyword of a schema and its subschemas, and where it stands. */
export function findKeywords(schema: Json): readonly { readonly pointer: string; readonly keyword: string }[] {
  const found: { pointer: string; keyword: string }[] = [];
  mapSchema(schema, (subschema, pointer) => {
    for (const keyword of Object.keys(subschema)) {
      found.push({ pointer: `${pointer}/${escapePointer(keyword)}`, keyword });
    }
    return subschema;
  });
  return found;
}

export function isMapping(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}
