import type { ForecastFires, PanelQueries } from "../runtime/protocol/ports/panel.ts";
import type { Clock } from "../runtime/protocol/ports/surroundings.ts";
import type { LiveFeed } from "./live.ts";
import { type ComingUp, loadComingUp } from "./panel/coming-up.ts";
import { type FireLoad, loadFireLoad } from "./panel/fire-load.ts";

/** What many open pages ask for at the same time is read once. */
export interface SharedReads
  extends Pick<
    PanelQueries,
    "loadStatistics" | "listWorkers" | "listQueues" | "listConcerns" | "loadRevision" | "loadSync"
  > {
  loadComingUp(): Promise<ComingUp>;
  loadFireLoad(): Promise<FireLoad>;
}

const FRESH_MS = 1_000;
/** Dearer reads, whose answers age slowly. */
const SLOW_FRESH_MS = 5_000;
/** Days ahead look the same for a while. */
const LOAD_FRESH_MS = 60_000;

/** A pause of no length is not waited for. */
const NEVER = new AbortController().signal;

export function shareReads(parts: {
  readonly panel: PanelQueries;
  readonly forecastFires: ForecastFires;
  readonly clock: Clock;
  readonly feed: LiveFeed;
}): SharedReads {
  const { panel, forecastFires, clock, feed } = parts;

  /** One call for all that ask until something changed or the answer is too old; failures are not kept. */
  function share<Value>(load: () => Promise<Value>, freshMs: number, followsChanges: boolean): () => Promise<Value> {
    let kept: { readonly value: Promise<Value>; readonly generation: number; readonly untilMs: number } | null = null;
    return () => {
      const generation = followsChanges ? feed.generation() : 0;
      if (kept !== null && kept.generation === generation && clock.monotonicMs() < kept.untilMs) return kept.value;
      const value = load();
      const entry = { value, generation, untilMs: clock.monotonicMs() + freshMs };
      kept = entry;
      value.catch(() => {
        if (kept === entry) kept = null;
      });
      return value;
    };
  }

  return {
    loadStatistics: share(() => panel.loadStatistics(), FRESH_MS, true),
    listWorkers: share(() => panel.listWorkers(), FRESH_MS, true),
    listQueues: share(() => panel.listQueues(), FRESH_MS, true),
    loadRevision: share(() => panel.loadRevision(), FRESH_MS, true),
    loadSync: share(() => panel.loadSync(), FRESH_MS, true),
    listConcerns: share(() => panel.listConcerns(), SLOW_FRESH_MS, false),
    loadFireLoad: share(() => loadFireLoad(panel, forecastFires, () => clock.sleep(0, NEVER)), LOAD_FRESH_MS, false),
    loadComingUp: share(() => loadComingUp(panel, forecastFires), FRESH_MS, true),
  };
}
