import type { ErrorCode } from "../core/error-codes.ts";
import { NAME_PATTERN } from "../core/ids.ts";
import type { JsonObject } from "../core/json.ts";
import { escapePointer } from "../core/unstorable.ts";
import { findLiteralProblems } from "./literals.ts";
import type { LoadedDocument } from "./load.ts";
import type { ObjectKind } from "./objects.ts";
import { describeValue, hasErrors, nearestName, type Path, type Problem, toPointer } from "./problems.ts";
import { KINDS } from "./schema.generated.ts";
import { isMapping } from "./schema-walk.ts";
import { type Checked, type DocumentOf, isKind, PLANNED_KINDS, validateDocument } from "./validate.ts";

/** A document whose kind is known; its name may be missing, and it may be invalid. */
export interface Envelope<Kind extends ObjectKind = ObjectKind> {
  readonly kind: Kind;
  /** Null when there is none that could be a name. */
  readonly name: string | null;
  readonly value: JsonObject;
  readonly source: LoadedDocument;
}

/** A valid document with its defaults filled in. */
export interface ValidDocument<Kind extends ObjectKind = ObjectKind> extends Envelope<Kind> {
  readonly name: string;
  readonly document: DocumentOf[Kind];
}

export interface ProblemAt {
  readonly code: ErrorCode;
  readonly path: Path;
  readonly message: string;
  readonly part?: "key" | "value";
  readonly hint?: string | null;
  readonly severity?: "error" | "warning";
}

/** A problem of a document, with the position that its path has. */
export function problemAt(source: LoadedDocument, at: ProblemAt): Problem {
  const { code, path, message, part = "value", hint = null, severity = "error" } = at;
  return { code, severity, file: source.file, ...source.locate(path, part), path: toPointer(path), message, hint };
}

/** Reads apiVersion, kind and name; what has none of Turno's kinds is a problem. */
export function readEnvelope(source: LoadedDocument): Envelope | Problem {
  const { value } = source;
  const fail = (at: ProblemAt): Problem => problemAt(source, at);
  if (!isMapping(value)) {
    const message = `expected a mapping with apiVersion, kind, metadata and spec, found ${describeValue(value)}`;
    return fail({ code: "TURNO_CONFIG_DOCUMENT", path: [], message });
  }
  const { apiVersion, kind, metadata } = value;
  if (kind === undefined || (apiVersion !== undefined && apiVersion !== "turno/v1")) {
    const message =
      kind === undefined
        ? `the field "kind" is missing; expected one of ${KINDS.join(", ")}`
        : `expected apiVersion turno/v1, found ${describeValue(apiVersion)}`;
    const path = kind === undefined ? [] : ["apiVersion"];
    return fail({ code: "TURNO_CONFIG_DOCUMENT", path, message, hint: kind === undefined ? null : "turno/v1" });
  }
  if (!isKind(kind)) {
    const planned = typeof kind === "string" && PLANNED_KINDS.includes(kind);
    const message = planned
      ? `the kind ${kind} is not known to this version; it comes in a later version`
      : `expected one of the kinds ${KINDS.join(", ")}, found ${describeValue(kind)}`;
    const hint = planned || typeof kind !== "string" ? null : nearestName(kind, KINDS);
    return fail({ code: "TURNO_CONFIG_UNKNOWN_KIND", path: ["kind"], message, hint });
  }
  const name = isMapping(metadata) ? metadata.name : undefined;
  return { kind, name: typeof name === "string" && NAME_PATTERN.test(name) ? name : null, value, source };
}

/** What a check of a document found. */
export interface CheckedDocument<Kind extends ObjectKind> {
  readonly envelope: Envelope<Kind>;
  /** Null when there is an error. */
  readonly valid: ValidDocument<Kind> | null;
  /** The fields of `spec` that have no problem, as written: further rules can judge them all the same. */
  readonly sound: JsonObject;
  readonly problems: readonly Problem[];
}

/** Checks a document by its schema; `defaults` are fields of `spec` for those that it does not have itself. */
export function checkDocument<Kind extends ObjectKind>(
  envelope: Envelope<Kind>,
  defaults: JsonObject = {},
): CheckedDocument<Kind> {
  const { kind, name, value, source } = envelope;
  const literals = findLiteralProblems(kind, value).map((problem) => problemAt(source, problem));
  const spec = isMapping(value.spec) ? { ...defaults, ...value.spec } : {};
  const merged = isMapping(value.spec) ? { ...value, spec } : value;
  const checked: Checked<DocumentOf[Kind]> = validateDocument(kind, merged);
  // A text with a problem of its own is not blamed again for the shape it has.
  const blamed = new Set(literals.map(({ path }) => path));
  const shapes = checked.ok ? [] : checked.problems.map((problem) => problemAt(source, problem));
  const problems = [...literals, ...shapes.filter(({ path }) => !blamed.has(path))];
  const faulty = new Set(problems.map(({ path }) => path.split("/").slice(1, 3).join("/")));
  const sound = Object.entries(spec).filter(([field]) => !faulty.has(`spec/${escapePointer(field)}`));
  const usable = checked.ok && name !== null && !hasErrors(problems);
  return {
    envelope,
    valid: usable ? { ...envelope, name, document: checked.value } : null,
    sound: Object.fromEntries(sound),
    problems,
  };
}
