import type { Json, JsonObject } from "../core/json.ts";
import { KINDS, TURNO_SCHEMA } from "./schema.generated.ts";
import { isMapping } from "./schema-walk.ts";

/** The combined schema, or that of one kind (in any case) with just the definitions it needs; null: no such kind. */
export function selectSchema(kind: string | null): JsonObject | null {
  if (kind === null) return TURNO_SCHEMA;
  const name = KINDS.find((known) => known.toLowerCase() === kind.toLowerCase());
  const definitions = TURNO_SCHEMA.$defs;
  if (name === undefined || !isMapping(definitions)) return null;
  const { [name]: schema, ...others } = definitions;
  if (!isMapping(schema)) return null;
  const needed = new Map<string, Json>();
  const pending: Json[] = [schema];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    for (const reference of findReferences(next)) {
      const definition = others[reference];
      if (definition === undefined || needed.has(reference)) continue;
      needed.set(reference, definition);
      pending.push(definition);
    }
  }
  return { $schema: TURNO_SCHEMA.$schema ?? null, ...schema, $defs: Object.fromEntries([...needed].sort()) };
}

function findReferences(value: Json): readonly string[] {
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, member]: [string, Json]) =>
    key === "$ref" && typeof member === "string" ? [member.replace("#/$defs/", "")] : findReferences(member),
  );
}
