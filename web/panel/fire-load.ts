import type { ForecastFires, PanelQueries, ScheduleView } from "../../runtime/protocol/ports/panel.ts";

export const LOAD_DAYS = 14;
const QUARTER_MS = 900_000;
const DAY_MS = 86_400_000;
/** Schedules looked at, fires of each, and fires together: reading the page may not hold up the process. */
const MAX_SCHEDULES = 1_000;
const MAX_FIRES_EACH = 5_000;
const MAX_FIRES = 100_000;
/** Fires that are computed between two turns of the event loop. */
const FIRES_A_TURN = 2_000;
/** Shared instants that are listed, and names at each. */
const MAX_SHARED = 8;
const MAX_NAMES = 4;

export interface SharedFire {
  readonly at: Date;
  readonly schedules: number;
  readonly names: readonly string[];
}

/** The fires of the coming days together. */
export interface FireLoad {
  readonly from: Date;
  readonly until: Date;
  /** Start of a quarter of an hour → its fires. */
  readonly quarters: ReadonlyMap<number, number>;
  /** The minute with most fires. */
  readonly peak: { readonly at: Date; readonly fires: number } | null;
  /** Instants at which several schedules fire, those with most first. */
  readonly shared: readonly SharedFire[];
  /** Zones of the schedules, the most used first. */
  readonly timeZones: readonly string[];
  readonly schedules: number;
  /** Schedules that fire too often to be drawn: they would be the same colour everywhere. */
  readonly frequent: readonly string[];
  /** There are more schedules, or more fires, than are looked at. */
  readonly isPart: boolean;
}

/** Adds up the fires of all schedules over the coming days; `rest` lets others go on between two steps. */
export async function loadFireLoad(
  panel: Pick<PanelQueries, "listSchedules">,
  forecastFires: ForecastFires,
  rest: () => Promise<void>,
): Promise<FireLoad> {
  const { now, items, next } = await panel.listSchedules({ after: null, limit: MAX_SCHEDULES });
  const until = new Date(now.getTime() + LOAD_DAYS * DAY_MS);
  const quarters = new Map<number, number>();
  const minutes = new Map<number, number>();
  const instants = new Map<number, { count: number; names: string[] }>();
  let left = MAX_FIRES;
  let isPart = next !== null;
  const frequent: string[] = [];
  let sinceRest = 0;
  for (const schedule of items) {
    if (left <= 0) {
      isPart = true;
      break;
    }
    const fires = firesOf(schedule, { until, limit: MAX_FIRES_EACH, forecastFires });
    left -= fires.length;
    sinceRest += fires.length;
    if (sinceRest >= FIRES_A_TURN) {
      sinceRest = 0;
      await rest();
    }
    if (fires.length >= MAX_FIRES_EACH) {
      frequent.push(schedule.name);
      continue;
    }
    for (const at of fires) {
      const time = at.getTime();
      addTo(quarters, time - (time % QUARTER_MS));
      addTo(minutes, time - (time % 60_000));
      const shared = instants.get(time) ?? { count: 0, names: [] };
      instants.set(time, shared);
      shared.count += 1;
      if (shared.names.length < MAX_NAMES) shared.names.push(schedule.name);
    }
  }
  return {
    from: now,
    until,
    quarters,
    peak: findPeak(minutes),
    shared: [...instants]
      .filter(([, { count }]) => count > 1)
      .sort(([leftAt, one], [rightAt, other]) => other.count - one.count || leftAt - rightAt)
      .slice(0, MAX_SHARED)
      .map(([at, { count, names }]) => ({ at: new Date(at), schedules: count, names })),
    timeZones: byUse(items.map(({ spec }) => spec.timeZone)),
    schedules: items.length,
    frequent,
    isPart,
  };
}

/** The stored next fire, which may carry an edit's rule, then the timing's own. */
function firesOf(
  schedule: ScheduleView,
  range: { readonly until: Date; readonly limit: number; readonly forecastFires: ForecastFires },
): readonly Date[] {
  const { nextFireAt } = schedule;
  const { until, limit, forecastFires } = range;
  if (schedule.suspended || nextFireAt === null || nextFireAt > until) return [];
  return [nextFireAt, ...forecastFires(schedule.spec, { after: nextFireAt, until, limit: limit - 1 })];
}

function addTo(counts: Map<number, number>, key: number): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function findPeak(minutes: ReadonlyMap<number, number>): FireLoad["peak"] {
  let peak: { at: number; fires: number } | null = null;
  for (const [at, fires] of minutes) {
    if (peak === null || fires > peak.fires || (fires === peak.fires && at < peak.at)) peak = { at, fires };
  }
  return peak === null ? null : { at: new Date(peak.at), fires: peak.fires };
}

function byUse(names: readonly string[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts]
    .sort(([left, one], [right, other]) => other - one || (left < right ? -1 : 1))
    .map(([name]) => name);
}
