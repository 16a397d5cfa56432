import type { Context, Hono } from "hono";
import type { Json } from "../../runtime/core/json.ts";
import type { IntakeOutcome, JobRequest, RequestKey } from "../../runtime/protocol/ports/intake.ts";
import type { Actions } from "../actions.ts";
import { expectNoBody, readJson } from "../body.ts";
import { JOB_PARAMETERS, jobNotFound, readJobFilter, readJobId, readQuery, writeCursor } from "../listing.ts";
import { addPath } from "../methods.ts";
import type { WebEnv, WebPorts } from "../ports.ts";
import { type FieldError, ProblemError } from "../problem.ts";
import { jobDetailJson, jobJson } from "./job-json.ts";
import { parseJobRequest } from "./job-request.ts";

/** Jobs that one batch may hold. */
const MAX_BATCH = 1000;

export function addJobRoutes(app: Hono<WebEnv>, { intake, panel }: WebPorts, actions: Actions): void {
  addPath(app, "/api/jobs", {
    async get(c) {
      const page = await panel.listJobs(readJobFilter(readQuery(c, JOB_PARAMETERS), true));
      return c.json({ items: page.items.map(jobJson), nextCursor: writeCursor(page.next) });
    },
    async post(c) {
      const once = readIdempotencyKey(c);
      readQuery(c, []);
      const parsed = parseJobRequest(await readJson(c), "");
      if ("errors" in parsed) throw notValid(parsed.errors);
      const outcome = await intake.submit([parsed.request], once);
      const { jobs, replayed } = expectCreated(outcome, (_, pointer) => pointer);
      const [job] = jobs;
      return c.json({ type: parsed.request.type, ...job }, job?.duplicate === true ? 200 : 201, {
        Location: `/api/jobs/${job?.id ?? ""}`,
        ...replay(replayed),
      });
    },
  });

  addPath(app, "/api/jobs/batch", {
    async post(c) {
      const once = readIdempotencyKey(c);
      readQuery(c, []);
      const requests = parseBatch(await readJson(c));
      const outcome = await intake.submit(requests, once);
      const { jobs, replayed } = expectCreated(outcome, (index, pointer) => `/jobs/${index}${pointer}`);
      const status = jobs.every((job) => job.duplicate === true) ? 200 : 201;
      const items = jobs.map((job, index) => ({ type: requests[index]?.type, ...job }));
      return c.json({ items }, status, replay(replayed));
    },
  });

  addPath(app, "/api/jobs/:id", {
    async get(c) {
      readQuery(c, []);
      const job = await panel.loadJob(readJobId(c));
      if (job === null) throw jobNotFound();
      return c.json(jobDetailJson(job));
    },
    async delete(c) {
      const id = readJobId(c);
      await expectNoBody(c);
      await actions.remove(id);
      return c.body(null, 204);
    },
  });

  addPath(app, "/api/jobs/:id/cancel", {
    async post(c) {
      const id = readJobId(c);
      await expectNoBody(c);
      const outcome = await actions.cancel(id);
      return outcome === "cancelled"
        ? c.json({ id, state: "Cancelled", cancelRequested: false }, 200)
        : c.json({ id, state: "Processing", cancelRequested: true }, 202);
    },
  });

  addPath(app, "/api/jobs/:id/requeue", {
    async post(c) {
      const id = readJobId(c);
      await expectNoBody(c);
      return c.json({ id, state: await actions.requeue(id) });
    },
  });
}

/** The key of a request that is to be carried out once; each client has keys of its own. */
function readIdempotencyKey(c: Context<WebEnv>): RequestKey | null {
  const key = c.req.header("idempotency-key");
  if (key === undefined) return null;
  if (!IDEMPOTENCY_KEY.test(key)) {
    throw new ProblemError(400, "Expected 1 to 255 visible ASCII characters in Idempotency-Key; nothing was created.", {
      code: "TURNO_API_REQUEST",
    });
  }
  return { scope: c.get("client")?.name ?? "", key };
}

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

function replay(replayed: boolean): Readonly<Record<string, string>> {
  return replayed ? { "Idempotent-Replay": "true" } : {};
}

function parseBatch(body: Json): readonly JobRequest[] {
  if (body === null || typeof body !== "object" || !("jobs" in body) || !Array.isArray(body.jobs)) {
    throw notValid([{ pointer: "/jobs", detail: 'expected { "jobs": [ … ] }' }]);
  }
  const others = Object.keys(body).filter((member) => member !== "jobs");
  if (others.length > 0)
    throw notValid(others.map((member) => ({ pointer: `/${member}`, detail: "unknown member; expected jobs" })));
  const items: readonly Json[] = body.jobs;
  if (items.length < 1 || items.length > MAX_BATCH) {
    throw notValid([{ pointer: "/jobs", detail: `expected 1 to ${MAX_BATCH} jobs, found ${items.length}` }]);
  }
  const parsed = items.map((item, index) => parseJobRequest(item, `/jobs/${index}`));
  const errors = parsed.flatMap((item) => ("errors" in item ? item.errors : []));
  if (errors.length > 0) throw notValid(errors);
  return parsed.flatMap((item) => ("request" in item ? [item.request] : []));
}

function expectCreated(
  outcome: IntakeOutcome,
  locate: (index: number, pointer: string) => string,
): Extract<IntakeOutcome, { kind: "created" }> {
  if (outcome.kind === "created") return outcome;
  if (outcome.kind === "conflict") throw keyConflict(outcome.reason);
  throw notValid(
    outcome.problems.map(({ request, pointer, message }) => ({ pointer: locate(request, pointer), detail: message })),
  );
}

function keyConflict(reason: Extract<IntakeOutcome, { kind: "conflict" }>["reason"]): ProblemError {
  if (reason === "other-request") {
    const detail =
      "The Idempotency-Key was used for another request; nothing was created. Send a new key with a new request.";
    return new ProblemError(422, detail, { code: "TURNO_API_KEY_REUSED" });
  }
  const detail = "A request with this Idempotency-Key is being carried out; send it again to have its answer.";
  return new ProblemError(409, detail, { code: "TURNO_API_IN_PROGRESS", headers: { "Retry-After": "1" } });
}

/** Enough errors to mend a body by; the rest would only be long. */
const MAX_ERRORS = 100;

function notValid(errors: readonly FieldError[]): ProblemError {
  const unknownType = errors.some((error) => /^(\/jobs\/\d+)?\/type$/.test(error.pointer));
  const payload = errors.some((error) => /^(\/jobs\/\d+)?\/payload/.test(error.pointer));
  return new ProblemError(422, "The request is not valid; nothing was created.", {
    code: unknownType ? "TURNO_JOB_UNKNOWN_TYPE" : payload ? "TURNO_JOB_PAYLOAD" : "TURNO_API_REQUEST",
    errors: errors.slice(0, MAX_ERRORS),
  });
}
