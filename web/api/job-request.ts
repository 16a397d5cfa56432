import { parseDuration } from "../../runtime/core/duration.ts";
import type { Json } from "../../runtime/core/json.ts";
import type { JobRequest } from "../../runtime/protocol/ports/intake.ts";
import { parseInstant } from "../instants.ts";
import type { FieldError } from "../problem.ts";

const MEMBERS = [
  "type",
  "queue",
  "payload",
  "priority",
  "runAt",
  "delay",
  "concurrencyKey",
  "maxAttempts",
  "timeout",
] as const;

export type ParsedRequest = { readonly request: JobRequest } | { readonly errors: readonly FieldError[] };

/** One job of a request's body; `pointer` is where it stands in it. Shapes only: what is declared is the intake's part. */
export function parseJobRequest(value: Json, pointer: string): ParsedRequest {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return { errors: [{ pointer, detail: "expected an object" }] };
  }
  const body = value as Readonly<Record<string, Json>>;
  const errors: FieldError[] = [];
  const at = (member: string, detail: string) => {
    errors.push({ pointer: `${pointer}/${member}`, detail });
  };
  for (const member of Object.keys(body)) refuseUnknown(member, at);
  const type = readText(body, "type", at);
  if (body.type === undefined) at("type", "expected the name of a declared job type");
  const queue = readText(body, "queue", at);
  const priority = readNumber(body, "priority", at);
  const maxAttempts = readNumber(body, "maxAttempts", at);
  const timeoutMs = readDuration(body, "timeout", at);
  if (timeoutMs === 0) at("timeout", "expected a duration above zero");
  const concurrencyKey = readText(body, "concurrencyKey", at);
  const due = readDue(body, at);
  if (errors.length > 0) return { errors };
  return {
    request: {
      type: type ?? "",
      queue,
      payload: body.payload ?? {},
      priority: priority ?? 0,
      due,
      maxAttempts,
      timeoutMs,
      ...(concurrencyKey === null ? {} : { concurrencyKey }),
    },
  };
}

type Body = Readonly<Record<string, Json>>;
type Report = (member: string, detail: string) => void;

function refuseUnknown(member: string, at: Report): void {
  if ((MEMBERS as readonly string[]).includes(member)) return;
  // Half of a surrogate pair cannot be sent back.
  const escaped = Buffer.from(member.replaceAll("~", "~0").replaceAll("/", "~1"), "utf8").toString("utf8");
  at(escaped, `unknown member; expected ${MEMBERS.join(", ")}`);
}

function readText(body: Body, member: string, at: Report): string | null {
  const value = body[member] ?? null;
  if (value === null || typeof value === "string") return value;
  at(member, "expected a text");
  return null;
}

function readNumber(body: Body, member: string, at: Report): number | null {
  const value = body[member] ?? null;
  if (value === null || typeof value === "number") return value;
  at(member, "expected a number");
  return null;
}

function readDuration(body: Body, member: string, at: Report): number | null {
  const text = readText(body, member, at);
  if (text === null) return null;
  try {
    return parseDuration(text);
  } catch {
    at(member, "expected a duration such as 500ms, 15s, 10m, 2h or 7d, at most 400d");
    return null;
  }
}

function readDue(body: Body, at: Report): JobRequest["due"] {
  const runAt = readText(body, "runAt", at);
  const afterMs = readDuration(body, "delay", at);
  if (runAt !== null && afterMs !== null) {
    at("delay", "expected runAt or delay, found both");
    return null;
  }
  if (afterMs !== null) return { afterMs };
  if (runAt === null) return null;
  const instant = parseInstant(runAt);
  if (instant === null) at("runAt", "expected an instant with its offset, such as 2026-10-01T18:20:00Z");
  return instant === null ? null : { at: instant };
}
