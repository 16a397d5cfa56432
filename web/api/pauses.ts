import type { Context, Hono } from "hono";
import { NAME_PATTERN } from "../../runtime/core/ids.ts";
import type { Json, JsonObject } from "../../runtime/core/json.ts";
import type { Pause, PauseRequest, Pauses, PauseTarget } from "../../runtime/protocol/ports/pauses.ts";
import { expectNoBody, readJson } from "../body.ts";
import { parseInstant } from "../instants.ts";
import { addPath } from "../methods.ts";
import type { WebEnv } from "../ports.ts";
import { type FieldError, ProblemError } from "../problem.ts";

const FIELDS = ["reason", "until", "by"];
const LONGEST_REASON = 500;

/** `disable` lays a pause over a schedule or queue, `enable` takes it away; nothing is owed for the time between. */
export function addPauseRoutes(app: Hono<WebEnv>, { pauses }: { readonly pauses: Pauses }): void {
  for (const [path, kind] of [
    ["/api/recurring-jobs", "Schedule"],
    ["/api/queues", "Queue"],
  ] as const) {
    addPath(app, `${path}/:name/disable`, {
      async post(c) {
        const body = c.req.header("content-type") === undefined ? {} : await readJson(c);
        return c.json(await layPause(c, { pauses, kind, body }));
      },
    });
    addPath(app, `${path}/:name/enable`, {
      async post(c) {
        await expectNoBody(c);
        return c.json({ nextFireAt: await takePauseAway(c, { pauses, kind }) });
      },
    });
  }
}

interface Asked {
  readonly pauses: Pauses;
  readonly kind: PauseTarget["kind"];
}

/** Pauses what the path names as the body says. Throws a problem for an unknown name or an invalid body. */
export async function layPause(c: Context<WebEnv>, asked: Asked & { readonly body: Json }): Promise<Pause> {
  const { pauses, kind, body } = asked;
  const outcome = await pauses.pause({ ...readTarget(c, kind), ...readRequest(c, body) });
  if (outcome.kind === "not-found") throw notFound(kind);
  if (outcome.kind === "over") throw invalid([{ pointer: "/until", detail: "expected an instant to come" }]);
  return outcome.pause;
}

/** Resumes what the path names; its next fire. Throws a problem where nothing is paused, or the files suspend it. */
export async function takePauseAway(c: Context<WebEnv>, { pauses, kind }: Asked): Promise<Date | null> {
  const target = readTarget(c, kind);
  const outcome = await pauses.resume(target);
  if (outcome.kind === "not-found") throw notFound(kind);
  if (outcome.kind === "not-paused") throw conflict(`The ${kind.toLowerCase()} ${target.name} is not paused.`);
  if (outcome.kind === "suspended-in-files") {
    throw conflict(
      `The files suspend the ${kind.toLowerCase()} ${target.name}: set suspend: false there and apply it.`,
    );
  }
  return outcome.nextFireAt;
}

function readTarget(c: Context<WebEnv>, kind: PauseTarget["kind"]): PauseTarget {
  const name = c.req.param("name") ?? "";
  if (!NAME_PATTERN.test(name)) throw notFound(kind);
  return { kind, name };
}

/** Without keys whoever asks says who they are; a key's name stands above that. */
function readRequest(c: Context<WebEnv>, body: Json): Pick<PauseRequest, "by" | "reason" | "until"> {
  if (body === null || typeof body !== "object" || Array.isArray(body)) {
    throw invalid([{ pointer: "", detail: "expected an object" }]);
  }
  const { reason = null, until = null, by = null } = body as JsonObject;
  const errors: FieldError[] = Object.keys(body)
    .filter((field) => !FIELDS.includes(field))
    .map((field) => ({ pointer: `/${field}`, detail: `is not known; expected one of ${FIELDS.join(", ")}` }));
  const isText = (value: unknown): value is string =>
    typeof value === "string" && value.length > 0 && value.length <= LONGEST_REASON && !value.includes("\0");
  for (const [field, value] of Object.entries({ reason, by })) {
    if (value === null || isText(value)) continue;
    errors.push({ pointer: `/${field}`, detail: `expected a text of 1 to ${LONGEST_REASON} characters` });
  }
  const end = typeof until === "string" ? parseInstant(until) : null;
  if (until !== null && end === null) {
    errors.push({ pointer: "/until", detail: "expected an instant such as 2026-12-24T18:00:00Z" });
  }
  if (errors.length > 0) throw invalid(errors);
  const name = c.get("client")?.name ?? (isText(by) ? by : "somebody at this machine");
  return { by: name, reason: isText(reason) ? reason : null, until: end };
}

function notFound(kind: PauseTarget["kind"]): ProblemError {
  return new ProblemError(404, `There is no ${kind.toLowerCase()} with this name.`, {
    code: kind === "Schedule" ? "TURNO_SCHEDULE_NOT_FOUND" : "TURNO_QUEUE_NOT_FOUND",
  });
}

function conflict(detail: string): ProblemError {
  return new ProblemError(409, detail, { code: "TURNO_PAUSE_STATE" });
}

function invalid(errors: readonly FieldError[]): ProblemError {
  return new ProblemError(422, "The pause was not laid: its body is not valid.", { errors });
}
