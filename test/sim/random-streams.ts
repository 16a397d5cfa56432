import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";

/** One purpose's own random numbers, so that a draw more for one of them changes nothing for the others. */
export interface Stream {
  /** Uniform in [0, 1). */
  next(): number;
  between(low: number, high: number): number;
  /** A whole number from `low` to `high`, both included. */
  whole(low: number, high: number): number;
  chance(share: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
}

export function subStream(seed: number, purpose: string): Stream {
  let mixed = 0x811c9dc5 ^ Math.imul(seed, 0x9e3779b1);
  for (let index = 0; index < purpose.length; index++) mixed = Math.imul(mixed ^ purpose.charCodeAt(index), 0x01000193);
  const random = seededRandom(mixed ^ (mixed >>> 15));
  const between = (low: number, high: number): number => low + random.next() * (high - low);
  return {
    next: () => random.next(),
    between,
    whole: (low, high) => Math.floor(between(low, high + 1)),
    chance: (share) => random.next() < share,
    pick: (items) => items[Math.floor(random.next() * items.length)] as (typeof items)[number],
  };
}
