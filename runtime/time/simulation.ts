import { collectFires, hasForeseeableFires } from "./fire-set.ts";
import type { Timing } from "./timing.ts";

/** A schedule with the lengths that its runs had, which stand for those it will have; milliseconds, in turn. */
export interface SimulatedSchedule {
  readonly name: string;
  readonly timing: Timing;
  readonly queue: string;
  readonly overlap: "Forbid" | "Allow" | "Queue" | "Replace";
  readonly runMs: readonly number[];
}

export interface SimulationRequest {
  readonly schedules: readonly SimulatedSchedule[];
  /** Runs of a queue that may be on their way at once; absent: any number. */
  readonly slots: ReadonlyMap<string, number>;
  readonly from: Date;
  readonly to: Date;
}

export interface SimulatedOutcome {
  readonly name: string;
  readonly fires: number;
  /** Fires that made no run, since another was on its way or waited. */
  readonly skipped: number;
  /** Runs that a newer one ended. */
  readonly replaced: number;
  /** It fires too often, or when its runs end: not all of its fires are there. */
  readonly complete: boolean;
}

export interface SimulatedQueue {
  readonly name: string;
  /** Null: any number. */
  readonly slots: number | null;
  readonly mostRunning: number;
  readonly mostWaiting: number;
  /** When most waited; null: none ever did. */
  readonly mostWaitingAt: number | null;
  readonly longestWaitMs: number;
}

export interface SimulationResult {
  readonly schedules: readonly SimulatedOutcome[];
  readonly queues: readonly SimulatedQueue[];
}

/** Two months of every minute. */
const MOST_FIRES = 90_000;

interface Run {
  readonly schedule: ScheduleState;
  readonly lengthMs: number;
  readonly arrivedAt: number;
  isRunning: boolean;
  isOver: boolean;
}

interface ScheduleState {
  readonly facts: SimulatedSchedule;
  readonly queue: QueueState;
  /** Runs on their way, waiting or running. */
  readonly active: Set<Run>;
  /** The one that waits for those before it (overlap Queue). */
  held: Run | null;
  started: number;
  skipped: number;
  replaced: number;
}

interface QueueState {
  readonly name: string;
  readonly slots: number;
  readonly waiting: Run[];
  running: number;
  mostRunning: number;
  mostWaiting: number;
  mostWaitingAt: number | null;
  longestWaitMs: number;
}

/** Plays the fires of a stretch of time through queues and overlap policies, each run as long as recorded ones. Pure. */
export function simulate({ schedules, slots, from, to }: SimulationRequest): SimulationResult {
  const queues = new Map<string, QueueState>();
  const states = schedules.map((facts) => createState(facts, findQueue(queues, facts.queue, slots)));
  const sets = schedules.map(({ timing }) => collectFires(timing, { after: from, until: to }, MOST_FIRES));
  const fires = sets
    .flatMap(({ fires: own }, index) => own.map((at) => ({ at, index })))
    .sort((left, right) => left.at - right.at || left.index - right.index);
  const ends = new EndQueue();
  for (const { at, index } of fires) {
    // What ends at the instant has ended when the next one fires.
    for (let ended = ends.takeUntil(at); ended !== null; ended = ends.takeUntil(at)) finish(ended.run, ended.at, ends);
    const state = states[index];
    if (state !== undefined) fire(state, at, ends);
  }
  return {
    schedules: states.map(({ facts, skipped, replaced }, index) => ({
      name: facts.name,
      fires: sets[index]?.fires.length ?? 0,
      skipped,
      replaced,
      complete: sets[index]?.complete === true && hasForeseeableFires(facts.timing),
    })),
    queues: [...queues.values()]
      .map(({ waiting: _, running: __, slots: limit, ...queue }) => ({
        ...queue,
        slots: Number.isFinite(limit) ? limit : null,
      }))
      .sort((left, right) => (left.name < right.name ? -1 : 1)),
  };
}

function createState(facts: SimulatedSchedule, queue: QueueState): ScheduleState {
  return { facts, queue, active: new Set(), held: null, started: 0, skipped: 0, replaced: 0 };
}

function findQueue(queues: Map<string, QueueState>, name: string, slots: ReadonlyMap<string, number>): QueueState {
  const known = queues.get(name);
  if (known !== undefined) return known;
  const queue: QueueState = {
    name,
    slots: slots.get(name) ?? Number.POSITIVE_INFINITY,
    waiting: [],
    running: 0,
    mostRunning: 0,
    mostWaiting: 0,
    mostWaitingAt: null,
    longestWaitMs: 0,
  };
  queues.set(name, queue);
  return queue;
}

function fire(state: ScheduleState, at: number, ends: EndQueue): void {
  const { overlap, runMs } = state.facts;
  const isBusy = state.active.size > 0;
  if (isBusy && (overlap === "Forbid" || (overlap === "Queue" && state.held !== null))) {
    state.skipped += 1;
    return;
  }
  const lengthMs = runMs[state.started % Math.max(runMs.length, 1)] ?? 0;
  state.started += 1;
  const run: Run = { schedule: state, lengthMs, arrivedAt: at, isRunning: false, isOver: false };
  if (isBusy && overlap === "Queue") {
    state.held = run;
    return;
  }
  if (isBusy && overlap === "Replace") {
    state.replaced += state.active.size;
    for (const old of [...state.active]) end(old, at, ends);
  }
  enqueue(run, at, ends);
}

function enqueue(run: Run, at: number, ends: EndQueue): void {
  const { queue } = run.schedule;
  run.schedule.active.add(run);
  if (queue.running < queue.slots) {
    start(run, at, ends);
    return;
  }
  queue.waiting.push(run);
  if (queue.waiting.length > queue.mostWaiting) {
    queue.mostWaiting = queue.waiting.length;
    queue.mostWaitingAt = at;
  }
}

function start(run: Run, at: number, ends: EndQueue): void {
  const { queue } = run.schedule;
  run.isRunning = true;
  queue.running += 1;
  queue.mostRunning = Math.max(queue.mostRunning, queue.running);
  queue.longestWaitMs = Math.max(queue.longestWaitMs, at - run.arrivedAt);
  ends.add({ at: at + run.lengthMs, run });
}

/** The end of a run's time; nothing when it was over before. */
function finish(run: Run, at: number, ends: EndQueue): void {
  if (!run.isOver) end(run, at, ends);
}

function end(run: Run, at: number, ends: EndQueue): void {
  const { schedule } = run;
  const { queue } = schedule;
  run.isOver = true;
  schedule.active.delete(run);
  if (run.isRunning) queue.running -= 1;
  else queue.waiting.splice(queue.waiting.indexOf(run), 1);
  const next = queue.running < queue.slots ? queue.waiting.shift() : undefined;
  if (next !== undefined) start(next, at, ends);
  const { held } = schedule;
  if (held !== null && schedule.active.size === 0) {
    schedule.held = null;
    enqueue(held, at, ends);
  }
}

interface End {
  readonly at: number;
  readonly run: Run;
}

/** Ends of runs, the soonest first: a binary heap. */
class EndQueue {
  readonly #heap: End[] = [];

  add(end: End): void {
    const heap = this.#heap;
    let place = heap.length;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || above.at <= end.at) break;
      heap[place] = above;
      place = parent;
    }
    heap[place] = end;
  }

  /** The soonest end that is not after the instant; null: none. */
  takeUntil(at: number): End | null {
    const heap = this.#heap;
    const [first] = heap;
    if (first === undefined || first.at > at) return null;
    const last = heap.pop();
    if (last !== undefined && heap.length > 0) this.#sink(last);
    return first;
  }

  #sink(end: End): void {
    const heap = this.#heap;
    let place = 0;
    for (;;) {
      let child = place * 2 + 1;
      const [left, right] = [heap[child], heap[child + 1]];
      if (left === undefined) break;
      if (right !== undefined && right.at < left.at) child += 1;
      const below = heap[child];
      if (below === undefined || below.at >= end.at) break;
      heap[place] = below;
      place = child;
    }
    heap[place] = end;
  }
}
