import type { Json } from "../../core/json.ts";
import type { Logger } from "../../core/logger.ts";
import type { FireView, JobFilter, JobPage, PanelQueries, Pulse } from "../../protocol/ports/panel.ts";
import { isFinal, JOB_STATES } from "../../protocol/states.ts";
import { LOAD_JOB, listEnd, listJobs } from "./panel-job-statements.ts";
import {
  type Row,
  readConcern,
  readDetail,
  readFire,
  readJob,
  readJobType,
  readQueue,
  readRevision,
  readSchedule,
  readStatistics,
  readSync,
  readWorker,
} from "./panel-rows.ts";
import {
  DATABASE_TIME,
  LIST_CONCERNS,
  LIST_FIRES,
  LIST_JOB_TYPES,
  LIST_QUEUES,
  LIST_SCHEDULES,
  LIST_WORKERS,
  LOAD_PULSE,
  LOAD_REVISION,
  LOAD_STATISTICS,
  LOAD_SYNC,
} from "./panel-statements.ts";
import { type Database, type DatabaseAddress, openDatabase } from "./pool.ts";

/** No look of a person may hold the database up for longer. */
export const PANEL_STATEMENT_TIMEOUT_MS = 3_000;

/** Reading on a small pool of its own, so that open panels never take connections from the work. */
export function openPanelQueries(options: {
  readonly address: DatabaseAddress;
  readonly logger: Logger;
}): PanelQueries & { close(): Promise<void> } {
  const database = openDatabase({
    ...options,
    applicationName: "turno-panel",
    size: 4,
    statementTimeoutMs: PANEL_STATEMENT_TIMEOUT_MS,
  });
  return { ...createPanelQueries(database), close: () => database.close() };
}

export function createPanelQueries(database: Pick<Database, "query">): PanelQueries {
  return {
    async loadPulse() {
      const [row] = await database.query<Pulse & { readonly [column: string]: unknown }>(LOAD_PULSE);
      return { jobs: row?.jobs ?? "", workers: row?.workers ?? "", sync: row?.sync ?? "" };
    },
    async loadStatistics() {
      const [row] = await database.query<Row>(LOAD_STATISTICS);
      return readStatistics(row ?? {});
    },
    listJobs: (filter) => listPage(database, filter),
    async loadJob(id) {
      const [row] = await database.query<Row>(LOAD_JOB, [id]);
      return row === undefined ? null : readDetail(row);
    },
    async listWorkers() {
      const rows = await database.query<Row>(LIST_WORKERS);
      return { now: await nowOf(database, rows), items: rows.map(readWorker) };
    },
    async listJobTypes() {
      return (await database.query<Row>(LIST_JOB_TYPES)).map(readJobType);
    },
    async listQueues() {
      const rows = await database.query<Row>(LIST_QUEUES);
      return { now: await nowOf(database, rows), items: rows.map(readQueue) };
    },
    async listSchedules({ after, limit }) {
      // One more row than asked for tells whether there is another page.
      const rows = await database.query<Row>(LIST_SCHEDULES, [after, limit + 1]);
      const items = rows.slice(0, limit).map(readSchedule);
      return {
        now: await nowOf(database, rows),
        items,
        next: rows.length > limit ? (items.at(-1)?.name ?? null) : null,
      };
    },
    async listFires({ schedules, each }) {
      const rows = await database.query<Row>(LIST_FIRES, [schedules, each]);
      const fires = new Map<string, FireView[]>(schedules.map((name) => [name, []]));
      for (const row of rows) fires.get(String(row.schedule))?.push(readFire(row));
      return fires;
    },
    async listConcerns() {
      const rows = await database.query<{ readonly concern: Record<string, Json> }>(LIST_CONCERNS);
      return rows.map((row) => readConcern(row.concern));
    },
    async loadRevision() {
      const [row] = await database.query<Row>(LOAD_REVISION);
      return row === undefined ? null : readRevision(row);
    },
    async loadSync() {
      const [row] = await database.query<Row>(LOAD_SYNC);
      return row === undefined ? null : readSync(row);
    },
  };
}

const LOWEST_ID = "00000000-0000-0000-0000-000000000000";
const HIGHEST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff";
/** From eight digits on a search is taken for the beginning of an id. */
const ID_PREFIX = /^[0-9a-f]{8}(-[0-9a-f-]{0,27})?$/;

async function listPage(database: Pick<Database, "query">, filter: JobFilter): Promise<JobPage> {
  const search = filter.search?.toLowerCase() ?? null;
  const byId = search !== null && ID_PREFIX.test(search);
  const states = filter.states.length === 0 ? JOB_STATES : filter.states;
  const places = [
    ...(states.some((state) => !isFinal(state)) ? [false] : []),
    ...(states.some((state) => isFinal(state)) ? [true] : []),
  ];
  const scope = filter.schedule === null ? "ids" : "schedule";
  const range = [
    filter.before ?? HIGHEST_ID,
    byId ? fillId(search, LOWEST_ID) : LOWEST_ID,
    byId ? fillId(search, HIGHEST_ID) : HIGHEST_ID,
    places,
    states.every((state) => state === "Processing"),
  ];
  const rows = await database.query<Row>(listJobs(scope), [
    ...range,
    filter.schedule,
    filter.states.length === 0 ? null : filter.states,
    filter.type,
    filter.queue,
    byId ? null : search,
    filter.revision,
    filter.limit,
    filter.withData,
  ]);
  const items = rows.map(readJob);
  if (rows.length === filter.limit) return { now: await nowOf(database, rows), items, next: items.at(-1)?.id ?? null };
  const ends = await database.query<{ id: string }>(
    listEnd(scope),
    scope === "ids" ? range : [...range, filter.schedule],
  );
  return { now: await nowOf(database, rows), items, next: ends[0]?.id ?? null };
}

function fillId(prefix: string, filler: string): string {
  return prefix + filler.slice(prefix.length);
}

/** The database's time: from a row that carries it, or asked for. */
async function nowOf(database: Pick<Database, "query">, rows: readonly Row[]): Promise<Date> {
  const now = rows[0]?.now;
  if (now instanceof Date) return now;
  const [row] = await database.query<{ now: Date }>(DATABASE_TIME);
  return row?.now ?? new Date(0);
}
