import { type Figure, type MetricsQueries, MOST_LABEL_VALUES } from "../../protocol/ports/metrics.ts";
import { LOAD_FIGURES } from "./metrics-statements.ts";
import type { Database } from "./pool.ts";

type Row = Readonly<Record<string, Figure[] | number | null>>;

/** The figures of a scrape, by one statement. */
export function createMetricsQueries(database: Pick<Database, "query">): MetricsQueries {
  return {
    async loadFigures() {
      const [row = {}] = await database.query<Row>(LOAD_FIGURES, [MOST_LABEL_VALUES]);
      const list = (column: string): readonly Figure[] => {
        const value = row[column];
        return Array.isArray(value) ? value : [];
      };
      const number = (column: string): number => Number(row[column] ?? 0);
      return {
        jobs: list("jobs"),
        headWaitSeconds: list("heads"),
        held: list("held"),
        ended: list("ended"),
        fires: list("fires"),
        largestLatenessSeconds: number("lateness"),
        slaMisses: list("sla_misses"),
        schedulesPaused: number("schedules_paused"),
        sync: list("sync"),
        syncAgeSeconds: number("sync_age"),
        leaders: list("leaders"),
        workers: number("workers"),
        workersFailingRenewals: number("workers_failing"),
        handlersStuck: number("handlers_stuck"),
        outboxMessages: number("outbox_messages"),
        outboxOldestSeconds: number("outbox_oldest"),
        deadLetters: number("dead_letters"),
      };
    },
  };
}
