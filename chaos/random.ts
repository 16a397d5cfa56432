/** Seeded random numbers: the same seed gives the same run of choices on every machine. */
export interface SeededRandom {
  /** From 0 up to, not including, 1. */
  share(): number;
  /** A whole number from low to high, both included. */
  between(low: number, high: number): number;
  pick<Item>(items: readonly Item[]): Item;
  /** True in so many of 100 cases. */
  chance(percent: number): boolean;
}

/** Mulberry32 (T. Ettinger, public domain). */
export function seededRandom(seed: number): SeededRandom {
  let state = seed >>> 0;
  const share = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const between = (low: number, high: number): number => low + Math.floor(share() * (high - low + 1));
  return {
    share,
    between,
    pick(items) {
      const item = items[between(0, items.length - 1)];
      if (item === undefined) throw new Error("expected something to pick from, found an empty list");
      return item;
    },
    chance: (percent) => share() * 100 < percent,
  };
}
