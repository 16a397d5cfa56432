import type { Context, Hono } from "hono";
import { TurnoError } from "../../runtime/core/errors.ts";
import type { JsonObject } from "../../runtime/core/json.ts";
import type {
  RevisionDesk,
  RevisionEntry,
  RevisionSummary,
  SyncStatus,
} from "../../runtime/protocol/ports/revisions.ts";
import { expectNoBody, readJson } from "../body.ts";
import { readCursor, readLimit, readQuery, writeCursor } from "../listing.ts";
import { addPath } from "../methods.ts";
import type { WebEnv } from "../ports.ts";
import { ProblemError } from "../problem.ts";

const NUMBER = /^\d{1,15}$/;

/** The history, the way back, the state of the sources, and a look at them now. */
export function addRevisionRoutes(app: Hono<WebEnv>, { revisions }: { readonly revisions: RevisionDesk }): void {
  addPath(app, "/api/revisions", {
    async get(c) {
      const query = readQuery(c, ["cursor", "limit"]);
      const limit = readLimit(query.limit);
      const cursor = readCursor(query.cursor, (key) => NUMBER.test(key));
      const found = await revisions.list({ before: cursor === null ? null : Number(cursor), limit });
      const last = found.length === limit ? found.at(-1) : undefined;
      const nextCursor = writeCursor(last === undefined ? null : String(last.number));
      return c.json({ items: found.map(entryJson), nextCursor });
    },
  });

  addPath(app, "/api/revisions/:number", {
    async get(c) {
      readQuery(c, []);
      const found = await revisions.find(readNumber(c));
      if (found === null) throw notFound();
      return c.json(entryJson(found));
    },
  });

  addPath(app, "/api/revisions/:number/rollback", {
    async post(c) {
      const { preview, by } = await readRollback(c);
      try {
        const outcome = await revisions.rollBack({ number: readNumber(c), by, preview });
        const revision = outcome.revision === null ? null : revisionJson(outcome.revision);
        return c.json({ revision, changes: outcome.words }, revision === null ? 200 : 201);
      } catch (error) {
        if (!(error instanceof TurnoError)) throw error;
        if (error.code === "TURNO_REVISION_UNKNOWN") throw new ProblemError(404, error.message, { code: error.code });
        if (!REFUSALS.includes(error.code)) throw error;
        throw new ProblemError(409, error.message, { code: error.code });
      }
    },
  });

  addPath(app, "/api/sync", {
    async get(c) {
      readQuery(c, []);
      return c.json({ items: (await revisions.status()).map(statusJson), nextCursor: null });
    },
    async post(c) {
      await expectNoBody(c);
      revisions.requestSync();
      return c.json({ requested: true }, 202);
    },
  });
}

const REFUSALS: readonly string[] = ["TURNO_SOURCE_STALE", "TURNO_SOURCE_OWNED", "TURNO_GUARD_PROTECTED"];

function readNumber(c: Context<WebEnv>): number {
  const text = c.req.param("number") ?? "";
  if (!NUMBER.test(text)) throw notFound();
  return Number(text);
}

function notFound(): ProblemError {
  return new ProblemError(404, "There is no such revision.", { code: "TURNO_REVISION_UNKNOWN" });
}

/** Without keys whoever asks says who they are; a key's name stands above that. */
async function readRollback(c: Context<WebEnv>): Promise<{ readonly preview: boolean; readonly by: string }> {
  const body = c.req.header("content-type") === undefined ? {} : await readJson(c);
  const isObject = body !== null && typeof body === "object" && !Array.isArray(body);
  const fields: JsonObject = isObject ? (body as JsonObject) : { body: null };
  const unknown = Object.keys(fields).find((field) => field !== "preview" && field !== "by");
  const { preview = false, by = "api" } = fields;
  if (
    unknown !== undefined ||
    typeof preview !== "boolean" ||
    typeof by !== "string" ||
    !/^[^\p{Cc}]{1,200}$/u.test(by)
  ) {
    throw new ProblemError(422, "Expected an object with preview (true or false) and by (a name), both optional.", {
      errors: [{ pointer: unknown === undefined ? "" : `/${unknown}`, detail: "expected preview or by" }],
    });
  }
  const client = c.get("client");
  return { preview, by: client === null ? by : client.name };
}

function entryJson({ words, ...revision }: RevisionEntry) {
  return { ...revisionJson(revision), changes: words };
}

function revisionJson(revision: RevisionSummary) {
  const { number, source, commit, baseCommit, author, committedAt, message, appliedAt, appliedBy, rollbackOf } =
    revision;
  return { number, source, commit, baseCommit, author, committedAt, message, appliedAt, appliedBy, rollbackOf };
}

function statusJson({ source, status, checkedAt, reachedAt, lastOkAt, revision, commit, problems }: SyncStatus) {
  return { source, status, checkedAt, reachedAt, lastOkAt, revision, commit, problems };
}
