import type { Context, Hono } from "hono";
import { NAME_PATTERN } from "../../runtime/core/ids.ts";
import type { ScheduleView } from "../../runtime/protocol/ports/panel.ts";
import { parseInstant } from "../instants.ts";
import { readCursor, readLimit, readQuery, writeCursor } from "../listing.ts";
import { addPath } from "../methods.ts";
import type { WebEnv, WebPorts } from "../ports.ts";
import { ProblemError } from "../problem.ts";

const BEGIN = new Date(0);
const END = new Date(Date.UTC(9999, 11, 31));

/** One schedule, and what became of its instants. */
export function addScheduleRoutes(app: Hono<WebEnv>, { history }: Pick<WebPorts, "history">): void {
  addPath(app, "/api/recurring-jobs/:name", {
    async get(c) {
      readQuery(c, []);
      const found = await history.loadSchedule(readName(c));
      if (found === null) throw scheduleNotFound();
      return c.json({ ...scheduleJson(found.schedule), declaredAt: found.declaredAt, now: found.now });
    },
  });

  addPath(app, "/api/recurring-jobs/:name/fires", {
    async get(c) {
      const query = readQuery(c, ["from", "to", "cursor", "limit"]);
      const before = readCursor(query.cursor, (key) => parseInstant(key) !== null);
      const to = before === null ? readInstant("to", query.to) : new Date(Date.parse(before) - 1);
      const limit = readLimit(query.limit);
      const from = readInstant("from", query.from) ?? BEGIN;
      const items = await history.listRecords({ schedule: readName(c), from, to: to ?? END, limit });
      const last = items.length === limit ? (items.at(-1)?.at.toISOString() ?? null) : null;
      return c.json({ items, nextCursor: writeCursor(last) });
    },
  });
}

/** A schedule as lists have it: `job` and `timing` beside its name. */
export function scheduleJson({ spec, jobType, timingHash: _, ...schedule }: ScheduleView) {
  return {
    ...schedule,
    job: jobType,
    timing: spec.timing,
    timeZone: spec.timeZone,
    payload: spec.payload,
    concurrencyPolicy: spec.concurrencyPolicy,
    misfirePolicy: spec.misfirePolicy,
    runOnStart: spec.runOnStart,
  };
}

/** The name in a path. Something else can be no schedule's name, so there is none. */
export function readName(c: Context): string {
  const name = c.req.param("name") ?? "";
  if (!NAME_PATTERN.test(name)) throw scheduleNotFound();
  return name;
}

export function scheduleNotFound(): ProblemError {
  return new ProblemError(404, "There is no schedule with this name.", { code: "TURNO_SCHEDULE_NOT_FOUND" });
}

function readInstant(name: string, text: string | undefined): Date | null {
  if (text === undefined) return null;
  const instant = parseInstant(text);
  if (instant !== null) return instant;
  throw new ProblemError(400, `Expected an instant such as 2026-03-29T03:00:00Z as "${name}", found "${text}".`);
}
