import { parseDuration } from "../core/duration.ts";
import { describeError } from "../core/errors.ts";
import { canonicalJson, type JsonObject } from "../core/json.ts";
import { BoundedCache } from "../time/bounded-cache.ts";
import { parseCron } from "../time/cron.ts";
import { nextFire, parseInstant } from "../time/next-fire.ts";
import { isTimeZone } from "../time/time-zone.ts";
import { type CheckedDocument, type ProblemAt, problemAt, type ValidDocument } from "./documents.ts";
import { MAX_PAYLOAD_BYTES } from "./limits.ts";
import type { LoadedDocument } from "./load.ts";
import { BUILTIN_HANDLERS, normalizeJob, normalizeSchedule } from "./normalize.ts";
import type { JobObject, ProjectSpec, ScheduleObject } from "./objects.ts";
import { type CompiledPayloadSchema, compilePayloadSchema, type PayloadSchema } from "./payload.ts";
import { resolvePayloadSchema } from "./payload-reference.ts";
import { nearestName, type Path, type Problem } from "./problems.ts";
import type { ScheduleDocument } from "./schema.generated.ts";
import { isMapping } from "./schema-walk.ts";

const DAY_MS = 86_400_000;
const NO_RETENTION = { succeededMs: 7 * DAY_MS, cancelledMs: 7 * DAY_MS, failedMs: 30 * DAY_MS };

/** Compiling costs milliseconds, and a watched project is loaded at every save. */
const compiledByText = new BoundedCache<string, CompiledPayloadSchema>(4_000);
const compiledByObject = new WeakMap<object, CompiledPayloadSchema>();

function compileOnce(schema: PayloadSchema): CompiledPayloadSchema {
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

/** What the schema cannot say of a schedule; null when the schedule has an error. */
export function readSchedule(
  checked: CheckedDocument<"Schedule">,
  context: {
    readonly settings: ProjectSpec | null;
    readonly jobs: ReadonlyMap<string, JobObject>;
    readonly problems: Problem[];
  },
): ScheduleObject | null {
  const { settings, jobs, problems } = context;
  const { valid, sound, envelope } = checked;
  const found: ProblemAt[] = [...checkTiming(sound)];
  if (typeof sound.timeZone === "string" && !isTimeZone(sound.timeZone)) {
    found.push(describeZone(sound.timeZone, ["spec", "timeZone"]));
  }
  if (valid !== null) {
    const { spec } = valid.document;
    if (spec.timeZone === undefined && settings !== null && settings.timeZone === null) found.push(ZONE_MISSING);
    found.push(...checkPayload(spec, jobs.get(spec.job)));
  }
  problems.push(...found.map((problem) => problemAt(envelope.source, problem)));
  if (valid === null || found.length > 0) return null;
  // The project's own zone may be the one that is wrong; its problem is told there.
  const inherited = settings?.timeZone ?? "UTC";
  const schedule = normalizeSchedule(
    valid,
    valid.document.spec.timeZone ?? (isTimeZone(inherited) ? inherited : "UTC"),
  );
  const { timing } = schedule.spec;
  if (timing.kind === "cron" && nextFire(timing, new Date(0)) === null) {
    const message = `the cron expression "${timing.expression}" names a date that never comes; the schedule never fires`;
    const warning = { code: "TURNO_CRON_INVALID", path: ["spec", "cron"], message, severity: "warning" } as const;
    problems.push(problemAt(envelope.source, warning));
  }
  return schedule;
}

const ZONE_MISSING: ProblemAt = {
  code: "TURNO_CONFIG_MISSING_KEY",
  path: ["spec", "timeZone"],
  part: "key",
  message: 'the field "timeZone" is missing, here and in the project; there is no default',
  hint: "Write the zone the times are meant in, for example timeZone: America/Sao_Paulo.",
};

function checkTiming({ cron: expression, at }: JsonObject): readonly ProblemAt[] {
  if (typeof expression === "string") {
    const cron = parseCron(expression);
    if (cron.ok) return [];
    const field = cron.field === "expression" ? "" : `the field "${cron.field}": `;
    const message = `the cron expression is not valid: ${field}${cron.message}`;
    return [{ code: "TURNO_CRON_INVALID", path: ["spec", "cron"], message, hint: cron.hint ?? null }];
  }
  if (typeof at !== "string") return [];
  try {
    parseInstant(at);
    return [];
  } catch (error) {
    return [{ code: "TURNO_TIME_INVALID", path: ["spec", "at"], message: describeError(error) }];
  }
}

/** The problem of a name that is no time zone. */
export function describeZone(name: string, path: Path): ProblemAt {
  const message = `expected the name of a time zone such as America/Sao_Paulo or UTC, found ${JSON.stringify(name)}`;
  const hint = nearestName(name, Intl.supportedValuesOf("timeZone"));
  return { code: "TURNO_TIME_INVALID", path, message, hint };
}

function checkPayload(spec: ScheduleDocument["spec"], job: JobObject | undefined): readonly ProblemAt[] {
  const bytes = Buffer.byteLength(JSON.stringify(spec.payload));
  if (bytes > MAX_PAYLOAD_BYTES) {
    const message = `expected a payload of at most ${MAX_PAYLOAD_BYTES} bytes of JSON, found ${bytes}`;
    return [{ code: "TURNO_CONFIG_LIMIT", path: ["spec", "payload"], message }];
  }
  const schema = job?.spec.payloadSchema ?? null;
  if (job === undefined || schema === null) return [];
  const compiled = compileOnce(schema);
  const problems = compiled.ok ? compiled.validate(spec.payload) : [];
  return problems.slice(0, 10).map(({ pointer, message }) => ({
    code: "TURNO_CONFIG_PAYLOAD",
    path: ["spec", "payload", ...readPointer(pointer)],
    message: `the payload does not match the schema of Job/${job.name}: ${pointer === "" ? "it" : pointer} ${message}`,
  }));
}

/** Also the bounds between a policy's fields. */
export function checkBackoff(source: ValidDocument<"Policy">): readonly Problem[] {
  const { backoff } = source.document.spec.retry;
  if (parseDuration(backoff.max) >= parseDuration(backoff.initial)) return [];
  const message = `expected at least the initial wait (${backoff.initial}), found ${backoff.max}`;
  return [problemAt(source.source, { code: "TURNO_CONFIG_VALUE", path: ["spec", "retry", "backoff", "max"], message })];
}

function readPointer(pointer: string): Path {
  return pointer
    .split("/")
    .slice(1)
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}
