import { createHash } from "node:crypto";
import { useLightAborts } from "../sim/light-abort.ts";
import { describeWorld } from "./description.ts";
import { Violation } from "./safety.ts";
import { type Action, World, type WorldRules } from "./world.ts";

export interface Exploration {
  readonly rules: WorldRules;
  readonly depth: number;
  /** Different states that were reached, the first one included. */
  readonly states: number;
  /** Steps that were taken from them. */
  readonly steps: number;
  /** The shortest way to a violation; null: there is none within the depth. */
  readonly violation: { readonly message: string; readonly trace: readonly string[] } | null;
}

/** What leads from the first state to another. */
type Path = readonly Action[];

interface Progress {
  readonly rules: WorldRules;
  /** Fingerprints of every state so far. */
  readonly seen: Set<string>;
  /** Ways to the new states of this level. */
  readonly next: Path[];
  steps: number;
}

/** States that are expanded before others in this process get a turn. */
const PORTION = 100;

/**
 * Breadth first over everything that can happen within `depth` steps, so the first violation is a shortest one. The
 * real code cannot be copied in the middle of a wait; a state is reached again by taking its path once more.
 */
export async function explore(rules: WorldRules, depth: number): Promise<Exploration> {
  const first = await begin(rules);
  if (!(first instanceof World)) return { rules, depth: 0, states: 0, steps: 0, violation: first };
  const seen = new Set<string>([fingerprint(first)]);
  let frontier: readonly Path[] = [[]];
  let steps = 0;
  for (let level = 0; level < depth && frontier.length > 0; level++) {
    const progress: Progress = { rules, seen, next: [], steps };
    for (let from = 0; from < frontier.length; from += PORTION) {
      await new Promise((resolve) => setImmediate(resolve));
      const portion = frontier.slice(from, from + PORTION);
      const violation = await withLightObjects(() => expand(portion, progress));
      steps = progress.steps;
      if (violation !== null) return { rules, depth: level + 1, states: seen.size, steps, violation };
    }
    frontier = progress.next;
  }
  return { rules, depth, states: seen.size, steps, violation: null };
}

/** The first state, unless the way to where the world begins leads to a violation already. */
async function begin(rules: WorldRules): Promise<World | NonNullable<Exploration["violation"]>> {
  try {
    return await new World(rules).open();
  } catch (error) {
    if (error instanceof Violation) return { message: error.message, trace: [] };
    throw error;
  }
}

/** Takes every next step from some states. */
async function expand(paths: readonly Path[], progress: Progress): Promise<Exploration["violation"]> {
  const { rules, seen, next } = progress;
  for (const path of paths) {
    let world: World | null = await arrive(rules, path);
    for (const action of world.actions()) {
      world ??= await arrive(rules, path);
      progress.steps += 1;
      try {
        await world.perform(action);
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        return { message, trace: [...path, action].map(({ name }) => name) };
      }
      const print = fingerprint(world);
      world = null;
      if (seen.has(print)) continue;
      seen.add(print);
      next.push([...path, action]);
    }
  }
  return null;
}

/** `run` must wait for microtasks only: then nobody else meets the abort signals and the errors of its making. */
async function withLightObjects<Result>(run: () => Promise<Result>): Promise<Result> {
  const restore = useLightAborts();
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return await run();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    restore();
  }
}

async function arrive(rules: WorldRules, path: Path): Promise<World> {
  const world = await new World(rules).open();
  for (const action of path) await world.perform(action);
  return world;
}

/** 96 bits: two states among a million that share one are as likely as a meteorite. */
function fingerprint(world: World): string {
  return createHash("sha1").update(describeWorld(world)).digest("base64").slice(0, 16);
}
