import { describeError, TurnoError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { deepFreeze } from "./normalize.ts";
import type { ProjectSpec, RuntimeSettings } from "./objects.ts";
import { nearestName, type Path } from "./problems.ts";
import { checkRuntime, readRuntime, writeRuntime } from "./runtime-document.ts";
import { TURNO_SCHEMA } from "./schema.generated.ts";
import { isList, isMapping } from "./schema-walk.ts";
import { validateRuntime } from "./validate.ts";

export type Environment = Readonly<Record<string, string | undefined>>;
/** Content of a file as text; throws when it cannot be read. */
type ReadFile = (path: string) => string;

const PREFIX = "TURNO_RUNTIME_";
const REFERENCE = /\$\{(env|file):([^}]*)\}/g;

/**
 * The settings a process starts with: those of the files, the environment's `TURNO_RUNTIME_…` over them, references
 * replaced. The result holds secrets: it is never stored, printed or compared. Throws TURNO_CONFIG_SETTING for a
 * variable that names no setting or has no fitting value, TURNO_CONFIG_REFERENCE for a reference that leads nowhere.
 */
export function resolveRuntimeSettings(
  { runtime }: Pick<ProjectSpec, "runtime">,
  env: Environment,
  readFile: ReadFile,
): RuntimeSettings {
  const settings = overrideRuntime(runtime, env);
  const resolve = (text: string, where: string): string => resolveReferences(text, { where, env, readFile });
  const optional = (text: string | null, where: string): string | null => (text === null ? null : resolve(text, where));
  const { rabbitmq, servicebus } = settings.broker;
  return deepFreeze({
    ...settings,
    database: {
      ...settings.database,
      url: optional(settings.database.url, "database.url") ?? nonEmpty(env.TURNO_DATABASE_URL),
    },
    broker: {
      ...settings.broker,
      rabbitmq: {
        url: optional(rabbitmq.url, "broker.rabbitmq.url") ?? nonEmpty(env.TURNO_RABBITMQ_URL),
        vhost: optional(rabbitmq.vhost, "broker.rabbitmq.vhost"),
        tls: {
          ca: optional(rabbitmq.tls.ca, "broker.rabbitmq.tls.ca"),
          cert: optional(rabbitmq.tls.cert, "broker.rabbitmq.tls.cert"),
          key: optional(rabbitmq.tls.key, "broker.rabbitmq.tls.key"),
          serverName: optional(rabbitmq.tls.serverName, "broker.rabbitmq.tls.serverName"),
        },
      },
      servicebus: {
        connectionString:
          optional(servicebus.connectionString, "broker.servicebus.connectionString") ??
          nonEmpty(env.TURNO_SERVICEBUS_CONNECTION_STRING),
      },
    },
    locks: {
      ...settings.locks,
      redlock: {
        ...settings.locks.redlock,
        urls: settings.locks.redlock.urls.map((url) => resolve(url, "locks.redlock.urls")),
      },
    },
    api: {
      ...settings.api,
      host: resolve(settings.api.host, "api.host"),
      keys: settings.api.keys === null ? nonEmpty(env.TURNO_API_KEYS) : resolve(settings.api.keys, "api.keysFrom"),
      allowedOrigins: settings.api.allowedOrigins.map((origin) => resolve(origin, "api.allowedOrigins")),
    },
  });
}

/** The files' settings with the environment's over them, references still as text. Throws TURNO_CONFIG_SETTING. */
export function overrideRuntime(runtime: RuntimeSettings, env: Environment): RuntimeSettings {
  if (!Object.keys(env).some((name) => name.startsWith(PREFIX))) return runtime;
  const overridden = applyOverrides(writeRuntime(runtime) as unknown as JsonObject, env);
  const checked = validateRuntime(overridden);
  const problem = checked.ok ? checkRuntime(checked.value)[0] : checked.problems[0];
  if (problem !== undefined) throw settingProblem(problem, env);
  if (!checked.ok) throw new TurnoError("TURNO_ASSERTION_FAILED", "settings are invalid without a problem");
  return readRuntime(checked.value);
}

/** `spec.runtime` as a document of its own, such as `writeRuntime` makes it; null when it is not valid. */
export function readRuntimeDocument(value: Json): RuntimeSettings | null {
  if (!isMapping(value)) return null;
  const checked = validateRuntime(value);
  return checked.ok && checkRuntime(checked.value).length === 0 ? readRuntime(checked.value) : null;
}

/** Name of the environment's variable for a setting below `spec.runtime`. */
export function variableOf(path: Path): string {
  const parts = path.map((segment) =>
    String(segment)
      .replaceAll(/[A-Z]/g, (letter) => `_${letter}`)
      .toUpperCase(),
  );
  return PREFIX + parts.join("_");
}

function applyOverrides(document: JsonObject, env: Environment): JsonObject {
  const names = Object.keys(env).filter((name) => name.startsWith(PREFIX) && env[name] !== undefined);
  let result: Json = document;
  // In the order of their numbers, so that a list grows by one at a time.
  for (const name of names.sort((left, right) => left.localeCompare(right, "en", { numeric: true }))) {
    const setting = findSetting(name, document);
    if (setting === null) throw unknownVariable(name, document);
    result = writeAt(result, setting.path, readVariable(name, env[name] ?? "", setting.type));
  }
  return isMapping(result) ? result : document;
}

interface Setting {
  readonly path: Path;
  readonly type: string;
}

/** Every leaf of `spec.runtime`; lists have one more place than the document has. */
function listSettings(schema: JsonObject, value: Json | undefined, path: Path): readonly Setting[] {
  const resolved = resolveDefinition(schema);
  const { properties, items } = resolved;
  if (isMapping(properties)) {
    return Object.entries(properties).flatMap(([name, property]) =>
      isMapping(property) ? listSettings(property, isMapping(value) ? value[name] : undefined, [...path, name]) : [],
    );
  }
  if (isMapping(items)) {
    const length = isList(value) ? value.length : 0;
    return Array.from({ length: Math.max(length + 1, 50) }, (_, index) => index).flatMap((index) =>
      listSettings(items, isList(value) ? value[index] : undefined, [...path, index]),
    );
  }
  return [{ path, type: typeof resolved.type === "string" ? resolved.type : "string" }];
}

function resolveDefinition(schema: JsonObject): JsonObject {
  const definitions = TURNO_SCHEMA.$defs;
  const reference = schema.$ref;
  if (typeof reference !== "string" || !isMapping(definitions)) return schema;
  const definition = definitions[reference.replace("#/$defs/", "")];
  return isMapping(definition) ? { ...definition, ...schema } : schema;
}

function allSettings(document: JsonObject): readonly Setting[] {
  return listSettings({ $ref: "#/$defs/runtime" }, document, []);
}

function findSetting(name: string, document: JsonObject): Setting | null {
  return allSettings(document).find(({ path }) => variableOf(path) === name) ?? null;
}

function readVariable(name: string, text: string, type: string): Json {
  if (type === "integer" && /^-?\d{1,15}$/.test(text)) return Number(text);
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  if (type !== "integer" && type !== "boolean") return text;
  const expected = type === "integer" ? "a whole number" : "true or false";
  throw new TurnoError("TURNO_CONFIG_SETTING", `expected ${expected} in ${name}, found another text`);
}

function writeAt(document: Json | undefined, path: Path, value: Json): Json {
  const [segment, ...rest] = path;
  if (segment === undefined) return value;
  if (typeof segment === "number") {
    const list = isList(document) ? [...document] : [];
    if (segment > list.length) {
      const message = `expected list items of the environment without gaps, found number ${segment} of ${list.length}`;
      throw new TurnoError("TURNO_CONFIG_SETTING", message);
    }
    list[segment] = writeAt(list[segment], rest, value);
    return list;
  }
  const mapping = isMapping(document) ? document : {};
  return { ...mapping, [segment]: writeAt(mapping[segment], rest, value) };
}

function unknownVariable(name: string, document: JsonObject): TurnoError {
  const nearest = nearestName(
    name,
    allSettings(document).map(({ path }) => variableOf(path)),
  );
  const hint = nearest === null ? {} : { hint: `Did you mean ${nearest}?` };
  return new TurnoError("TURNO_CONFIG_SETTING", `the variable ${name} names no setting of spec.runtime`, hint);
}

function settingProblem(problem: { readonly path: Path; readonly message: string }, env: Environment): TurnoError {
  const path = problem.path.map((segment) => (/^\d+$/.test(String(segment)) ? Number(segment) : segment));
  const variable = variableOf(path);
  const where = env[variable] === undefined ? `spec.runtime.${path.join(".")}` : variable;
  return new TurnoError("TURNO_CONFIG_SETTING", `${where}: ${problem.message}`);
}

function resolveReferences(
  text: string,
  context: { readonly where: string; readonly env: Environment; readonly readFile: ReadFile },
): string {
  const { where, env, readFile } = context;
  return text.replaceAll(REFERENCE, (_, source: string, name: string) => {
    const fail = (reason: string, cause?: unknown): TurnoError =>
      new TurnoError("TURNO_CONFIG_REFERENCE", `spec.runtime.${where} refers to ${source}:${name}, ${reason}`, {
        cause,
      });
    if (source === "env") {
      const value = env[name];
      if (value === undefined || value === "") throw fail("which is not set; set the variable and start again");
      return value;
    }
    try {
      return readFile(name).replace(/\r?\n$/, "");
    } catch (error) {
      throw fail(`which could not be read: ${describeError(error)}`, error);
    }
  });
}

function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text === "" ? null : text;
}
