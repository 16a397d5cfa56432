import { parseDuration } from "../core/duration.ts";
import { canonicalJson } from "../core/json.ts";
import { BoundedCache } from "../time/bounded-cache.ts";
import { type CheckedDocument, type ProblemAt, problemAt, type ValidDocument } from "./documents.ts";
import type { LoadedDocument } from "./load.ts";
import { BUILTIN_HANDLERS, normalizeJob } from "./normalize.ts";
import type { JobObject, ProjectSpec } from "./objects.ts";
import { type CompiledPayloadSchema, compilePayloadSchema, type PayloadSchema } from "./payload.ts";
import { resolvePayloadSchema } from "./payload-reference.ts";
import { nearestName, type Path, type Problem } from "./problems.ts";
import { isMapping } from "./schema-walk.ts";

const DAY_MS = 86_400_000;
const NO_RETENTION = { succeededMs: 7 * DAY_MS, cancelledMs: 7 * DAY_MS, failedMs: 30 * DAY_MS };

/** Compiling costs milliseconds, and a watched project is loaded at every save. */
const compiledByText = new BoundedCache<string, CompiledPayloadSchema>(4_000);
const compiledByObject = new WeakMap<object, CompiledPayloadSchema>();

/** A payload schema, compiled once however often the files are looked at. */
export function compileOnce(schema: PayloadSchema): CompiledPayloadSchema {
  const known = typeof schema === "object" ? compiledByObject.get(schema) : undefined;
  if (known !== undefined) return known;
  const compiled = compiledByText.getOrCompute(canonicalJson(schema), () => compilePayloadSchema(schema));
  if (typeof schema === "object") compiledByObject.set(schema, compiled);
  return compiled;
}

/** What the schema cannot say of a job; null when the job has an error. `settings` null: the project is not valid. */
export function readJob(
  checked: CheckedDocument<"Job">,
  context: {
    readonly settings: ProjectSpec | null;
    readonly files: ReadonlyMap<string, Uint8Array | string>;
    readonly handlerExists: ((path: string) => boolean) | undefined;
    readonly builtinSettings: ReadonlyMap<string, PayloadSchema> | undefined;
    readonly problems: Problem[];
  },
): JobObject | null {
  const { settings, problems } = context;
  const { valid, sound } = checked;
  const before = problems.length;
  if (typeof sound.handler === "string") problems.push(...checkHandler(checked, sound.handler, context));
  const own = typeof sound.handler === "string" ? context.builtinSettings?.get(sound.handler) : undefined;
  if (own !== undefined) problems.push(...checkSettings(checked, own));
  const { payload } = sound;
  const hasSchema = isMapping(payload) || typeof payload === "boolean";
  const schema = hasSchema ? readPayloadSchema(checked.envelope.source, { ...context, payload }) : null;
  if (valid === null || problems.length > before) return null;
  return normalizeJob(valid, { payloadSchema: schema, retention: settings?.runtime.retention ?? NO_RETENTION });
}

function checkHandler(
  { envelope }: CheckedDocument<"Job">,
  handler: string,
  context: {
    readonly settings: ProjectSpec | null;
    readonly handlerExists: ((path: string) => boolean) | undefined;
  },
): readonly Problem[] {
  const { settings, handlerExists } = context;
  const at = { code: "TURNO_CONFIG_HANDLER", path: ["spec", "handler"] } as const;
  if (handler.startsWith("builtin/")) {
    if (BUILTIN_HANDLERS.includes(handler)) return [];
    const message = `expected a built-in handler (${BUILTIN_HANDLERS.join(", ")}), found ${handler}`;
    return [problemAt(envelope.source, { ...at, message, hint: nearestName(handler, BUILTIN_HANDLERS) })];
  }
  if (settings === null || handlerExists === undefined) return [];
  const path = `${settings.handlers}/${handler}`;
  if (handlerExists(path)) return [];
  return [problemAt(envelope.source, { ...at, message: `expected the handler in ${path}, found no such file` })];
}

/** `spec.settings` of a handler that ships with Turno, by the schema that it has for them. */
function checkSettings({ envelope, sound }: CheckedDocument<"Job">, schema: PayloadSchema): readonly Problem[] {
  const compiled = compileOnce(schema);
  if (!compiled.ok) return [];
  return compiled.validate(sound.settings ?? {}).map(({ pointer, message }) => {
    const path = ["spec", "settings", ...readPointer(pointer)];
    const part = message === "is not a known member" ? "key" : "value";
    const sentence = `the settings of ${String(sound.handler)}: ${pointer === "" ? "they" : pointer} ${message}`;
    return problemAt(envelope.source, { code: "TURNO_CONFIG_VALUE", path, part, message: sentence });
  });
}

function readPayloadSchema(
  source: LoadedDocument,
  context: {
    readonly payload: PayloadSchema;
    readonly files: ReadonlyMap<string, Uint8Array | string>;
    readonly problems: Problem[];
  },
): PayloadSchema | null {
  const { payload, files, problems } = context;
  const report = (pointer: string, message: string): void => {
    const path = ["spec", "payload", ...readPointer(pointer)];
    problems.push(problemAt(source, { code: "TURNO_CONFIG_PAYLOAD_SCHEMA", path, message }));
  };
  const resolved = resolvePayloadSchema(payload, { file: source.file, files });
  for (const { pointer, message } of resolved.problems) report(pointer, message);
  problems.push(...resolved.fileProblems);
  if (resolved.schema === null) return null;
  const compiled = compileOnce(resolved.schema);
  if (compiled.ok) return resolved.schema;
  for (const { pointer, message } of compiled.problems) {
    const { file } = resolved;
    const place = file === null ? "" : ` (${file}${pointer === "" ? "" : ` at ${pointer}`})`;
    report(file === null ? pointer : "/$ref", `the payload schema cannot be used${place}: ${message}`);
  }
  return null;
}

/** The problem of a name that is no time zone. */
export function describeZone(name: string, path: Path): ProblemAt {
  const message = `expected the name of a time zone such as America/Sao_Paulo or UTC, found ${JSON.stringify(name)}`;
  const hint = nearestName(name, Intl.supportedValuesOf("timeZone"));
  return { code: "TURNO_TIME_INVALID", path, message, hint };
}

/** Also the bounds between a policy's fields. */
export function checkBackoff(source: ValidDocument<"Policy">): readonly Problem[] {
  const { backoff } = source.document.spec.retry;
  if (parseDuration(backoff.max) >= parseDuration(backoff.initial)) return [];
  const message = `expected at least the initial wait (${backoff.initial}), found ${backoff.max}`;
  return [problemAt(source.source, { code: "TURNO_CONFIG_VALUE", path: ["spec", "retry", "backoff", "max"], message })];
}

/** A JSON pointer as the path of a problem. */
export function readPointer(pointer: string): Path {
  return pointer
    .split("/")
    .slice(1)
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}
