import type { ForecastFires, PanelQueries, ScheduleView } from "../../runtime/protocol/ports/panel.ts";

const HOUR_MS = 3_600_000;
/** Schedules looked at, and fires of each. */
const MAX_SCHEDULES = 1_000;
const MAX_FIRES_EACH = 720;

/** Rows of the list. */
const MAX_NEXT = 6;

/** Schedules whose next fire is at one instant, and how often the first of them fires within the hour. */
export interface ComingFires {
  readonly at: Date;
  readonly schedules: readonly ScheduleView[];
  readonly fires: number;
}

export interface ComingUp {
  readonly from: Date;
  /** Each schedule once, at its next fire, soonest first; the first few. */
  readonly next: readonly ComingFires[];
  /** Fires by minute from now, sixty of them. */
  readonly minutes: readonly number[];
  /** Whether anything is declared at all. */
  readonly schedules: number;
}

/** The fires of the next hour, from the timing of every schedule that is not suspended. */
export async function loadComingUp(
  panel: Pick<PanelQueries, "listSchedules">,
  forecastFires: ForecastFires,
): Promise<ComingUp> {
  const { now, items } = await panel.listSchedules({ after: null, limit: MAX_SCHEDULES });
  const until = new Date(now.getTime() + HOUR_MS);
  const byInstant = new Map<number, { schedules: ScheduleView[]; fires: number }>();
  const minutes = Array.from({ length: 60 }, () => 0);
  for (const schedule of items) {
    const fires = firesOf(schedule, until, forecastFires);
    for (const at of fires) {
      const minute = Math.min(59, Math.max(0, Math.floor((at.getTime() - now.getTime()) / 60_000)));
      minutes[minute] = (minutes[minute] ?? 0) + 1;
    }
    const [first] = fires;
    if (first === undefined) continue;
    const known = byInstant.get(first.getTime());
    if (known === undefined) byInstant.set(first.getTime(), { schedules: [schedule], fires: fires.length });
    else known.schedules.push(schedule);
  }
  const next = [...byInstant]
    .sort(([left], [right]) => left - right)
    .slice(0, MAX_NEXT)
    .map(([at, { schedules, fires }]) => ({ at: new Date(at), schedules, fires }));
  return { from: now, next, minutes, schedules: items.length };
}

/** The stored next fire, which may carry an edit's rule, then the timing's own. */
function firesOf(schedule: ScheduleView, until: Date, forecastFires: ForecastFires): readonly Date[] {
  const { nextFireAt } = schedule;
  if (schedule.suspended || nextFireAt === null || nextFireAt > until) return [];
  return [nextFireAt, ...forecastFires(schedule.spec, { after: nextFireAt, until, limit: MAX_FIRES_EACH })];
}
