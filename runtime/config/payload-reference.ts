import type { Json, JsonObject } from "../core/json.ts";
import { escapePointer } from "../core/unstorable.ts";
import { type LoadedFile, loadFile } from "./load.ts";
import type { PayloadSchema } from "./payload.ts";
import type { Problem } from "./problems.ts";
import { isMapping, mapSchema } from "./schema-walk.ts";

/** A problem of the schema as written, pointer from the schema's root; or one of a file that it refers to. */
export interface ReferenceProblem {
  readonly pointer: string;
  readonly message: string;
}

export interface ResolvedSchema {
  /** Null when something could not be resolved. */
  readonly schema: PayloadSchema | null;
  readonly problems: readonly ReferenceProblem[];
  readonly fileProblems: readonly Problem[];
  /** The file whose whole content is the schema, when it is only a reference to one. */
  readonly file: string | null;
}

const DRAFT = "https://json-schema.org/draft/2020-12/schema";
const MAX_FILES = 50;

/**
 * Brings every file that a payload schema refers to into it, under `$defs`, so that it stands alone. References are
 * relative to the file they stand in and stay below the project's folder; nothing is fetched.
 */
export function resolvePayloadSchema(
  written: PayloadSchema,
  context: { readonly file: string; readonly files: ReadonlyMap<string, Uint8Array | string> },
): ResolvedSchema {
  const problems: ReferenceProblem[] = [];
  const fileProblems: Problem[] = [];
  /** Where each file's content stands in the result. */
  const places = new Map<string, string>();
  const definitions: [string, Json][] = [];

  function place(target: string, pointer: string): string | null {
    const known = places.get(target);
    if (known !== undefined) return known;
    if (places.size >= MAX_FILES) {
      problems.push({ pointer, message: `expected at most ${MAX_FILES} files in one schema` });
      return null;
    }
    const content = readSchemaFile(target, pointer);
    if (content === null) return null;
    const name = `file:${target.replaceAll(/[^A-Za-z0-9._-]/g, ".")}:${places.size}`;
    const where = `#/$defs/${escapePointer(name)}`;
    places.set(target, where);
    definitions.push([name, rewrite(content, target, where, pointer)]);
    return where;
  }

  function readSchemaFile(target: string, pointer: string): Json | null {
    const bytes = context.files.get(target);
    if (bytes === undefined) {
      problems.push({ pointer, message: `expected a schema in ${target}, found no such file` });
      return null;
    }
    const loaded: LoadedFile = loadFile(target, bytes);
    fileProblems.push(...loaded.problems);
    const [document, second] = loaded.documents;
    if (
      document === undefined ||
      second !== undefined ||
      !(isMapping(document.value) || typeof document.value === "boolean")
    ) {
      if (loaded.problems.length === 0) {
        problems.push({ pointer, message: `expected one JSON Schema in ${target}, found something else` });
      }
      return null;
    }
    return document.value;
  }

  /** `from`: pointer of the reference in the written schema that led here, for problems; null in the schema itself. */
  function rewrite(schema: Json, file: string, where: string, from: string | null): Json {
    return mapSchema(schema, (subschema, below) => {
      const { $ref, $schema, ...rest } = subschema;
      const pointer = from ?? below;
      const report = (message: string): void => void problems.push({ pointer, message });
      if ($schema !== undefined && String($schema).replace(/#$/, "") !== DRAFT) {
        report(`expected a schema of ${DRAFT}, found ${String($schema).slice(0, 100)}`);
      }
      const kept = Object.entries(rest).filter(
        ([keyword]) => !keyword.startsWith("x-") && !(keyword === "$id" && below === ""),
      );
      if (kept.some(([keyword]) => keyword === "$id")) report("expected no $id inside a schema");
      if (typeof $ref !== "string") return Object.fromEntries($ref === undefined ? kept : [["$ref", $ref], ...kept]);
      const target = rewriteReference($ref, { file, where, pointer: from ?? `${below}/$ref` });
      return Object.fromEntries(target === null ? kept : [["$ref", target], ...kept]);
    });
  }

  function rewriteReference(
    reference: string,
    at: { readonly file: string; readonly where: string; readonly pointer: string },
  ): string | null {
    const [path = "", fragment = ""] = reference.split("#", 2);
    if (reference === DRAFT) return reference;
    if (fragment !== "" && !fragment.startsWith("/")) {
      problems.push({
        pointer: at.pointer,
        message: `expected a reference by JSON Pointer, found ${reference.slice(0, 100)}`,
      });
      return null;
    }
    if (path === "") return `${at.where}${fragment}`;
    const target = resolvePath(at.file, path);
    if (target === null) {
      const message = `expected a file below the project's folder, found ${reference.slice(0, 100)}`;
      problems.push({ pointer: at.pointer, message });
      return null;
    }
    const where = place(target, at.pointer);
    return where === null ? null : `${where}${fragment}`;
  }

  const only = isMapping(written) && Object.keys(written).length === 1 ? written.$ref : undefined;
  const file = typeof only === "string" && !only.includes("#") ? resolvePath(context.file, only) : null;
  let root: Json | null = written;
  if (file !== null) {
    places.set(file, "#");
    root = readSchemaFile(file, "/$ref");
  }
  const schema = root === null ? null : rewrite(root, file ?? context.file, "#", file === null ? null : "/$ref");
  const failed = problems.length > 0 || fileProblems.some(({ severity }) => severity === "error");
  return { schema: failed ? null : withDefinitions(schema, definitions), problems, fileProblems, file };
}

function withDefinitions(schema: Json, definitions: readonly [string, Json][]): PayloadSchema | null {
  if (typeof schema === "boolean") return schema;
  if (!isMapping(schema)) return null;
  if (definitions.length === 0) return schema;
  const own = schema.$defs;
  return { ...schema, $defs: { ...(isMapping(own) ? own : {}), ...Object.fromEntries(definitions) } } as JsonObject;
}

/** A relative path, seen from a file; null when it is absolute, an address, or leads out of the project. */
function resolvePath(from: string, path: string): string | null {
  if (/^[a-z][a-z0-9+.-]*:/i.test(path) || path.startsWith("/") || path.includes("\\")) return null;
  const segments = from.split("/").slice(0, -1);
  for (const segment of path.split("/")) {
    if (segment === "..") {
      if (segments.pop() === undefined) return null;
    } else if (segment !== "." && segment !== "") segments.push(segment);
  }
  return segments.join("/");
}
