/** How one set of instants became another; milliseconds, each list in order. */
export interface FireChanges {
  readonly kept: number;
  readonly added: readonly number[];
  readonly removed: readonly number[];
  readonly moved: readonly { readonly from: number; readonly to: number }[];
}

/** Instants further apart than this are an instant that went and another that came. */
const FURTHEST_MOVE_MS = 7 * 86_400_000;

/**
 * Compares two ordered sets. What one lost and the other gained is paired as moved: in order on a day (of the
 * schedule's zone) that lost as many as it gained, otherwise where each is the other's nearest.
 */
export function compareFires(
  before: readonly number[],
  after: readonly number[],
  dayOf: (instant: number) => string,
): FireChanges {
  const { kept, lost, gained } = splitSets(before, after);
  const byDay = pairByDay(lost, gained, dayOf);
  const nearest = pairNearest(byDay.lost, byDay.gained);
  const moved = [...byDay.moved, ...nearest.moved].sort((left, right) => left.from - right.from);
  return { kept, added: nearest.gained, removed: nearest.lost, moved };
}

interface Pairing {
  readonly lost: readonly number[];
  readonly gained: readonly number[];
  readonly moved: readonly { readonly from: number; readonly to: number }[];
}

function splitSets(before: readonly number[], after: readonly number[]) {
  const known = new Set(before);
  const wanted = new Set(after);
  const lost = before.filter((at) => !wanted.has(at));
  return { kept: before.length - lost.length, lost, gained: after.filter((at) => !known.has(at)) };
}

function pairByDay(lost: readonly number[], gained: readonly number[], dayOf: (instant: number) => string): Pairing {
  const lostByDay = groupByDay(lost, dayOf);
  const gainedByDay = groupByDay(gained, dayOf);
  const isPaired = (day: string) => lostByDay.get(day)?.length === gainedByDay.get(day)?.length;
  const moved = [...lostByDay].flatMap(([day, instants]) =>
    isPaired(day) ? instants.map((from, index) => ({ from, to: gainedByDay.get(day)?.[index] ?? from })) : [],
  );
  return {
    moved,
    lost: lost.filter((at) => !isPaired(dayOf(at))),
    gained: gained.filter((at) => !isPaired(dayOf(at))),
  };
}

function groupByDay(instants: readonly number[], dayOf: (instant: number) => string): ReadonlyMap<string, number[]> {
  const days = new Map<string, number[]>();
  for (const at of instants) {
    const day = dayOf(at);
    const known = days.get(day);
    if (known === undefined) days.set(day, [at]);
    else known.push(at);
  }
  return days;
}

function pairNearest(lost: readonly number[], gained: readonly number[]): Pairing {
  const nearestGained = findNearest(lost, gained);
  const nearestLost = findNearest(gained, lost);
  const pairs = new Map<number, number>();
  for (const [index, from] of lost.entries()) {
    const target = nearestGained[index];
    if (target === undefined || nearestLost[target] !== index) continue;
    const to = gained[target];
    if (to !== undefined && Math.abs(to - from) <= FURTHEST_MOVE_MS) pairs.set(from, to);
  }
  const taken = new Set(pairs.values());
  return {
    moved: [...pairs].map(([from, to]) => ({ from, to })),
    lost: lost.filter((at) => !pairs.has(at)),
    gained: gained.filter((at) => !taken.has(at)),
  };
}

/** For each instant the index of the nearest of the others, the earlier of two; both in order. */
function findNearest(instants: readonly number[], others: readonly number[]): readonly (number | undefined)[] {
  let index = 0;
  return instants.map((at) => {
    if (others.length === 0) return undefined;
    const distance = (place: number) => Math.abs((others[place] ?? Number.POSITIVE_INFINITY) - at);
    while (index + 1 < others.length && distance(index + 1) < distance(index)) index += 1;
    return index;
  });
}
