import type { Random } from "../../protocol/ports/surroundings.ts";

/** For jitter and spreading; not for secrets. */
export const systemRandom: Random = { next: () => Math.random() };
