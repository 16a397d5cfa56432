import type { Context } from "hono";
import { isJobId, type JobId } from "../runtime/core/ids.ts";
import type { JobFilter } from "../runtime/protocol/ports/panel.ts";
import { JOB_STATES, type JobState } from "../runtime/protocol/states.ts";
import { ProblemError } from "./problem.ts";

/** Items of a page when nothing is asked for, and at most. */
export const PAGE = { default: 50, max: 200 } as const;

/** The query's parameters: each at most once, none unknown, none with a character that no name has. */
export function readQuery<Name extends string>(
  c: Context,
  known: readonly Name[],
): Readonly<Partial<Record<Name, string>>> {
  const read: Partial<Record<Name, string>> = {};
  for (const [name, values] of Object.entries(c.req.queries())) {
    const parameter = known.find((candidate) => candidate === name);
    const expected = known.length === 0 ? "no parameters" : known.join(", ");
    if (parameter === undefined)
      throw new ProblemError(400, `Unknown query parameter "${name}"; expected ${expected}.`);
    const [value] = values;
    if (value === undefined || values.length > 1) throw new ProblemError(400, `Expected the parameter "${name}" once.`);
    if (value.includes("\0")) throw new ProblemError(400, `The parameter "${name}" holds the character U+0000.`);
    if (value !== "") read[parameter] = value;
  }
  return read;
}

export function readLimit(text: string | undefined): number {
  if (text === undefined) return PAGE.default;
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > PAGE.max)
    throw new ProblemError(400, `Expected a limit from 1 to ${PAGE.max}, found "${text}".`);
  return limit;
}

/** Cursors are opaque: base64url of the last key of a page. */
export function writeCursor(key: string | null): string | null {
  return key === null ? null : Buffer.from(key, "utf8").toString("base64url");
}

export function readCursor(text: string | undefined, isKey: (key: string) => boolean): string | null {
  if (text === undefined) return null;
  const key = Buffer.from(text, "base64url").toString("utf8");
  if (writeCursor(key) !== text || !isKey(key)) {
    throw new ProblemError(400, "This cursor is none that Turno gave out; start again without one.");
  }
  return key;
}

export const JOB_PARAMETERS = ["state", "type", "queue", "schedule", "revision", "search", "cursor", "limit"] as const;
export type JobParameters = Readonly<Partial<Record<(typeof JOB_PARAMETERS)[number], string>>>;

/** The filter of a job list; the same for the API and the panel. */
export function readJobFilter(query: JobParameters, withData: boolean): JobFilter {
  return {
    states: query.state === undefined ? [] : query.state.split(",").map(readState),
    type: query.type ?? null,
    queue: query.queue ?? null,
    schedule: query.schedule ?? null,
    revision: query.revision === undefined ? null : readRevision(query.revision),
    search: query.search ?? null,
    before: readCursor(query.cursor, isJobId),
    limit: readLimit(query.limit),
    withData,
  };
}

function readState(text: string): JobState {
  const state = JOB_STATES.find((candidate) => candidate === text);
  if (state === undefined) throw new ProblemError(400, `Unknown state "${text}"; expected ${JOB_STATES.join(", ")}.`);
  return state;
}

function readRevision(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new ProblemError(400, `Expected the number of a revision, found "${text}".`);
  return Number(text);
}

/** The id in a path. Something else can be no job's id, so there is none. */
export function readJobId(c: Context): JobId {
  const id = (c.req.param("id") ?? "").toLowerCase();
  if (!isJobId(id)) throw jobNotFound();
  return id;
}

export function jobNotFound(): ProblemError {
  return new ProblemError(404, "There is no job with this id; it may have been cleaned up.", {
    code: "TURNO_JOB_NOT_FOUND",
  });
}
