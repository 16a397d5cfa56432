/** What stands in the place of a secret. */
export const REDACTED = "***";

/** Names of fields whose value is never shown, whatever it is. */
const SECRET_NAME =
  /pass(word|wd|phrase)?$|secret|token$|api-?_?key|authorization|cookie|credential|private-?_?key|signature/i;
/** Numbers of Turno's own that end like a secret's name. */
const PUBLIC_NAME = /^(dispatch|fencing)-?_?token$/i;
/** `scheme://user:password@` — the password may hold anything but a slash or a blank, and ends at the last @. */
const URL_PASSWORD = /\b([a-z][a-z0-9+.-]*:\/\/[^\s:/@]*):[^\s/]+@/gi;
/** `password=…`, `SharedAccessKey=…`, `?token=…` in connection strings, query strings and command lines. */
const ASSIGNED =
  /\b((?:[\w-]*(?:password|passwd|secret|token|api[-_]?key|accesskey))\s*=\s*)("[^"]*"|'[^']*'|[^\s;&,"')]+)/gi;
/** `Authorization: Bearer …`, `X-Turno-Key: …`. */
const HEADER = /\b((?:authorization|x-turno-key|cookie|set-cookie)\s*[:=]\s*(?:bearer\s+|basic\s+)?)[^\s,;"']+/gi;
const BEARER = /\b(bearer\s+)[\w.~+/=-]{8,}/gi;

const DEPTH_LIMIT = 8;

/** The text without passwords in URLs, keys in connection strings and credentials in headers. */
export function redactText(text: string): string {
  return text
    .replace(URL_PASSWORD, `$1:${REDACTED}@`)
    .replace(HEADER, `$1${REDACTED}`)
    .replace(BEARER, `$1${REDACTED}`)
    .replace(ASSIGNED, `$1${REDACTED}`);
}

/** A copy that can be written as JSON and shows no secret: errors as objects, bigint as text, cycles and depth cut. */
export function redactFields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return redactObject(fields, []);
}

function redactObject(value: object, above: readonly object[]): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    const isSecret = SECRET_NAME.test(name) && !PUBLIC_NAME.test(name) && member !== null && member !== undefined;
    copy[name] = isSecret ? REDACTED : redactValue(member, [...above, value]);
  }
  return copy;
}

function redactValue(value: unknown, above: readonly object[]): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint" || typeof value === "symbol" || typeof value === "function") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (above.includes(value)) return "(a cycle)";
  if (above.length > DEPTH_LIMIT) return "(too deep)";
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "(invalid date)" : value.toISOString();
  if (value instanceof Error) return redactError(value, above);
  if (Array.isArray(value)) return value.map((item) => redactValue(item, [...above, value]));
  return redactObject(value, above);
}

function redactError(error: Error, above: readonly object[]): Record<string, unknown> {
  const { name, message, stack, cause } = error;
  const code: unknown = (error as { code?: unknown }).code;
  return {
    name,
    message: redactText(message),
    ...(typeof code === "string" ? { code } : {}),
    ...(stack === undefined ? {} : { stack: redactText(stack) }),
    ...(cause === undefined ? {} : { cause: redactValue(cause, [...above, error]) }),
  };
}
