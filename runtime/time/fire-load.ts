const MINUTE_MS = 60_000;

/** A schedule's fires, for counting several together. */
export interface NamedFires {
  readonly name: string;
  readonly fires: readonly number[];
}

/** Instants at which more than one schedule fires. */
export interface SharedInstant {
  readonly at: number;
  readonly schedules: number;
  /** The first few, by name. */
  readonly names: readonly string[];
}

/** How many fires there are together, minute by minute. */
export interface FireLoad {
  readonly fires: number;
  /** Start of a minute → its fires; minutes without any are absent. */
  readonly minutes: ReadonlyMap<number, number>;
  /** The minute with most fires, the first of several; null without fires. */
  readonly peak: { readonly minute: number; readonly fires: number } | null;
  /** How many instants several schedules share. */
  readonly sharedInstants: number;
  /** Those with most schedules, most first. */
  readonly shared: readonly SharedInstant[];
}

export interface LoadLimits {
  /** Shared instants that are named. */
  readonly shared: number;
  /** Schedules named at each. */
  readonly names: number;
}

const LIMITS: LoadLimits = { shared: 5, names: 5 };

/** Adds up the fires of schedules; each schedule counts once an instant. */
export function measureLoad(schedules: readonly NamedFires[], limits: LoadLimits = LIMITS): FireLoad {
  const minutes = new Map<number, number>();
  const instants = new Map<number, number>();
  let fires = 0;
  for (const { fires: own } of schedules) {
    fires += own.length;
    for (const at of own) {
      const minute = at - (at % MINUTE_MS);
      minutes.set(minute, (minutes.get(minute) ?? 0) + 1);
      instants.set(at, (instants.get(at) ?? 0) + 1);
    }
  }
  const several = [...instants].filter(([, count]) => count > 1);
  const worst = several
    .sort(([leftAt, left], [rightAt, right]) => right - left || leftAt - rightAt)
    .slice(0, limits.shared);
  return {
    fires,
    minutes,
    peak: findPeak(minutes),
    sharedInstants: several.length,
    shared: worst.map(([at, count]) => ({ at, schedules: count, names: namesAt(schedules, at, limits.names) })),
  };
}

/** Fires in `cells` equal parts of the stretch. */
export function countByCell(
  load: Pick<FireLoad, "minutes">,
  stretch: { readonly from: number; readonly to: number; readonly cells: number },
): readonly number[] {
  const counts = Array.from({ length: stretch.cells }, () => 0);
  const width = (stretch.to - stretch.from) / stretch.cells;
  for (const [minute, fires] of load.minutes) {
    const cell = Math.min(stretch.cells - 1, Math.max(0, Math.floor((minute - stretch.from) / width)));
    counts[cell] = (counts[cell] ?? 0) + fires;
  }
  return counts;
}

const BARS = [..."▁▂▃▄▅▆▇█"];

/** Counts as a line of bars; `top` is the whole height, nothing is a space. */
export function drawBars(counts: readonly number[], top: number): string {
  return counts
    .map((count) => {
      if (count === 0) return " ";
      return BARS[Math.min(BARS.length - 1, Math.ceil((count / Math.max(top, 1)) * BARS.length) - 1)] ?? "";
    })
    .join("");
}

function findPeak(minutes: ReadonlyMap<number, number>): FireLoad["peak"] {
  let peak: { minute: number; fires: number } | null = null;
  for (const [minute, fires] of minutes) {
    if (peak === null || fires > peak.fires || (fires === peak.fires && minute < peak.minute)) peak = { minute, fires };
  }
  return peak;
}

function namesAt(schedules: readonly NamedFires[], at: number, limit: number): readonly string[] {
  const names: string[] = [];
  for (const { name, fires } of schedules) {
    if (hasInstant(fires, at)) names.push(name);
  }
  return names.sort().slice(0, limit);
}

/** Binary search: fires are in order. */
function hasInstant(fires: readonly number[], at: number): boolean {
  let low = 0;
  let high = fires.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((fires[middle] ?? 0) < at) low = middle + 1;
    else high = middle;
  }
  return fires[low] === at;
}
