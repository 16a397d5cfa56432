import type { FireRow, MemoryDatabase } from "../../runtime/adapters/memory/database.ts";

/** Instants that come from the timing, not from a hand or a start. */
const PLANNED = new Set<FireRow["outcome"]>(["fired", "missed", "superseded", "overlapped"]);

/** Each instant once, on the grid of its interval, with at most one job. Null: so it is. */
export function judgeSchedules(database: MemoryDatabase): string | null {
  const decided = new Set<string>();
  const jobs = new Set<string>();
  for (const { schedule, atMs, outcome, jobId } of database.fires) {
    const timing = database.schedules.get(schedule)?.spec.timing;
    const instant = `${schedule} at ${new Date(atMs).toISOString()}`;
    if (decided.has(instant)) return `${instant} was decided twice`;
    decided.add(instant);
    if (PLANNED.has(outcome) && timing?.kind === "every" && timing.from === "epoch" && atMs % timing.intervalMs !== 0)
      return `${instant} is not on the grid of ${timing.intervalMs} ms`;
    const fires = outcome === "fired" || outcome === "manual" || outcome === "on-start";
    if (fires !== (jobId !== null)) return `${instant} is ${outcome} and has ${jobId === null ? "no" : "a"} job`;
    if (jobId === null) continue;
    if (jobs.has(jobId)) return `${instant} shares its job with another instant`;
    jobs.add(jobId);
  }
  return null;
}

/** Whether every instant from the first on was run, overlapped, missed or superseded. Null: so it is. */
export function accountForInstants(database: MemoryDatabase, firstAtMs: ReadonlyMap<string, number>): string | null {
  for (const { name, spec, nextFireAtMs } of database.schedules.values()) {
    const { timing } = spec;
    const fromMs = firstAtMs.get(name);
    if (timing.kind !== "every" || timing.from !== "epoch" || nextFireAtMs === null || fromMs === undefined) continue;
    const due = (nextFireAtMs - fromMs) / timing.intervalMs;
    let accounted = 0;
    for (const fire of database.fires) {
      if (fire.schedule !== name) continue;
      // A run by hand in the very millisecond of an instant is that instant's.
      const isItsInstant =
        fire.atMs >= fromMs && fire.atMs < nextFireAtMs && (fire.atMs - fromMs) % timing.intervalMs === 0;
      if (!PLANNED.has(fire.outcome) && !isItsInstant) continue;
      accounted += 1 + fire.olderSkips;
    }
    if (accounted !== due) return `${name} had ${due} instants, of which ${accounted} are accounted for`;
  }
  return null;
}
