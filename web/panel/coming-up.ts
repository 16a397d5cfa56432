import type { ForecastFires, PanelQueries, ScheduleView } from "../../runtime/protocol/ports/panel.ts";

const HOUR_MS = 3_600_000;
/** Schedules looked at, and fires of each. */
const MAX_SCHEDULES = 1_000;
const MAX_FIRES_EACH = 720;

/** The fires of one instant. */
export interface ComingFires {
  readonly at: Date;
  readonly schedules: readonly ScheduleView[];
}

export interface ComingUp {
  readonly from: Date;
  /** Every instant of the next hour, soonest first. */
  readonly instants: readonly ComingFires[];
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
  const byInstant = new Map<number, ScheduleView[]>();
  for (const schedule of items) {
    for (const at of firesOf(schedule, until, forecastFires)) {
      const fires = byInstant.get(at.getTime()) ?? [];
      fires.push(schedule);
      byInstant.set(at.getTime(), fires);
    }
  }
  const minutes = Array.from({ length: 60 }, () => 0);
  for (const [at, schedules] of byInstant) {
    const minute = Math.min(59, Math.max(0, Math.floor((at - now.getTime()) / 60_000)));
    minutes[minute] = (minutes[minute] ?? 0) + schedules.length;
  }
  const instants = [...byInstant]
    .sort(([left], [right]) => left - right)
    .map(([at, schedules]) => ({ at: new Date(at), schedules }));
  return { from: now, instants, minutes, schedules: items.length };
}

/** The stored next fire, which may carry an edit's rule, then the timing's own. */
function firesOf(schedule: ScheduleView, until: Date, forecastFires: ForecastFires): readonly Date[] {
  const { nextFireAt } = schedule;
  if (schedule.suspended || nextFireAt === null || nextFireAt > until) return [];
  return [nextFireAt, ...forecastFires(schedule.spec, { after: nextFireAt, until, limit: MAX_FIRES_EACH })];
}
