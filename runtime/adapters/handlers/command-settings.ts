import type { JsonObject } from "../../core/json.ts";

/** Bytes of each output that are kept when the settings do not say. */
export const DEFAULT_OUTPUT_LIMIT = 64 * 1024;
const ENV_REFERENCE = /\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}/g;
/** Shorter values would blot out ordinary output. */
const MIN_MASKED_LENGTH = 6;

/** JSON Schema (2020-12) of `spec.settings` of a job type with `handler: builtin/command`. */
export const COMMAND_SETTINGS_SCHEMA: JsonObject = {
  type: "object",
  required: ["command"],
  additionalProperties: false,
  properties: {
    command: {
      type: "array",
      minItems: 1,
      maxItems: 1000,
      items: { type: "string", pattern: "^[^\\u0000]*$" },
      description: "Program and arguments, handed over as they are: no shell reads them.",
    },
    cwd: { type: "string", minLength: 1, description: "Working folder, relative to the project's root (the default)." },
    env: {
      type: "object",
      propertyNames: { pattern: "^[A-Za-z_][A-Za-z0-9_]*$" },
      additionalProperties: { type: "string" },
      description:
        "Environment beside PATH, HOME, LANG, TZ and TMPDIR; references to the environment in a value (env:NAME in a dollar brace) take the worker's own.",
    },
    exitCodes: {
      type: "object",
      additionalProperties: false,
      properties: {
        retry: {
          type: "array",
          items: { type: "integer", minimum: 1, maximum: 255 },
          description: "Codes worth another attempt. When given, every code in neither list is permanent.",
        },
        permanent: {
          type: "array",
          items: { type: "integer", minimum: 1, maximum: 255 },
          description: "Codes that no retry can mend.",
        },
      },
    },
    outputLimit: {
      type: "integer",
      minimum: 0,
      maximum: 131072,
      default: DEFAULT_OUTPUT_LIMIT,
      description: "Bytes kept of the end of standard output, and of standard error.",
    },
  },
};

export interface CommandSettings {
  readonly command: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly exitCodes?: { readonly retry?: readonly number[]; readonly permanent?: readonly number[] };
  readonly outputLimit?: number;
}

/** What the schema promises; null for anything else, since definitions of before the schema may hold anything. */
export function readCommandSettings(settings: JsonObject): CommandSettings | null {
  const { command, cwd, env = {}, outputLimit } = settings;
  const isText = (value: unknown) => typeof value === "string";
  const valid =
    Array.isArray(command) &&
    command.length > 0 &&
    command.every(isText) &&
    (cwd === undefined || isText(cwd)) &&
    typeof env === "object" &&
    env !== null &&
    Object.values(env).every(isText) &&
    (outputLimit === undefined || typeof outputLimit === "number");
  return valid ? (settings as unknown as CommandSettings) : null;
}

/** `secrets` are values to be masked in output; `missing` is a reference that this worker has no value for. */
export type ResolvedEnvironment =
  | { readonly values: Readonly<Record<string, string>>; readonly secrets: readonly string[] }
  | { readonly missing: string };

/** Declared values with their references to the worker's environment looked up. */
export function resolveEnvironment(declared: Readonly<Record<string, string>>): ResolvedEnvironment {
  const values: Record<string, string> = {};
  const secrets: string[] = [];
  for (const [name, text] of Object.entries(declared)) {
    const references = [...text.matchAll(ENV_REFERENCE)].map(([, reference = ""]) => reference);
    const missing = references.find((reference) => process.env[reference] === undefined);
    if (missing !== undefined) return { missing: `\${env:${missing}}` };
    const resolved = references.map((reference) => process.env[reference] ?? "");
    secrets.push(...resolved.filter((value) => value.length >= MIN_MASKED_LENGTH));
    values[name] = text.replaceAll(ENV_REFERENCE, (_, reference: string) => process.env[reference] ?? "");
  }
  return { values, secrets };
}
