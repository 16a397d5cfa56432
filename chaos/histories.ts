import type { ExecutionLine, NemesisLine } from "./ledger.ts";

/** One run of a handler, as its own lines tell it. Times are microseconds of the monotonic clock. */
export interface HandlerRun {
  readonly job: string;
  readonly fence: bigint;
  readonly tag: string | null;
  readonly key: string | null;
  readonly pid: number;
  readonly ppid: number;
  readonly execution: number;
  readonly first: number;
  last: number;
  effectAt: number | null;
  /** It returned a result. */
  ended: boolean;
  /** It ended by itself, with a result or an error, or by its abort; false: its process died around it. */
  closed: boolean;
  /** Further `begin` lines with the same token. */
  repeats: number;
}

/** Runs by job, oldest token first. */
export type Histories = ReadonlyMap<string, readonly HandlerRun[]>;

/** Lines of one process come in order, and those of several in any. */
export function readHistories(lines: Iterable<ExecutionLine>): Histories {
  const jobs = new Map<string, Map<string, HandlerRun>>();
  for (const line of lines) {
    const runs = jobs.get(line.job) ?? new Map<string, HandlerRun>();
    jobs.set(line.job, runs);
    const run = runs.get(line.fence);
    if (run === undefined) runs.set(line.fence, beginRun(line));
    else addLine(run, line);
  }
  return new Map([...jobs].map(([job, runs]) => [job, [...runs.values()].sort(byFence)]));
}

function beginRun(line: ExecutionLine): HandlerRun {
  if (line.e !== "begin") throw new Error(`a run of ${line.job} has no begin before its ${line.e}`);
  return {
    job: line.job,
    fence: BigInt(line.fence),
    tag: line.tag ?? null,
    key: line.key ?? null,
    pid: line.pid,
    ppid: line.ppid ?? 0,
    execution: line.execution ?? 0,
    first: line.at,
    last: line.at,
    effectAt: null,
    ended: false,
    closed: false,
    repeats: 0,
  };
}

function addLine(run: HandlerRun, line: ExecutionLine): void {
  run.last = Math.max(run.last, line.at);
  if (line.e === "begin") run.repeats += 1;
  if (line.e === "effect") run.effectAt = line.at;
  if (line.e === "end") run.ended = true;
  if (line.e === "end" || line.e === "throw" || line.e === "abort") run.closed = true;
}

function byFence(left: HandlerRun, right: HandlerRun): number {
  return left.fence < right.fence ? -1 : left.fence > right.fence ? 1 : 0;
}

/** Time in which a worker could not know that others took its jobs. */
export interface Window {
  readonly kind: "stop" | "freeze" | "cut-off";
  readonly from: number;
  readonly to: number;
}

/** What was done to which process, by process id. */
export class Disturbances {
  readonly #slots = new Map<number, string>();
  readonly #exits = new Map<number, number>();
  readonly #windows = new Map<string, Window[]>();

  constructor(lines: Iterable<NemesisLine>) {
    for (const line of lines) {
      if (line.e === "spawned") this.#slots.set(line.pid, line.slot);
      if (line.e === "exited") this.#exits.set(line.pid, line.at);
      if (line.e === "window") this.#windows.set(line.slot, [...(this.#windows.get(line.slot) ?? []), line]);
    }
  }

  /** Threads run in the worker's own process. */
  isThread(run: HandlerRun): boolean {
    return this.#slots.has(run.pid);
  }

  windowsOf(run: HandlerRun): readonly Window[] {
    const slot = this.#slots.get(run.pid) ?? this.#slots.get(run.ppid);
    return slot === undefined ? [] : (this.#windows.get(slot) ?? []);
  }

  /** When the run's worker died; null: it lives, or ended before. */
  deathOf(run: HandlerRun): number | null {
    return this.#exits.get(run.pid) ?? this.#exits.get(run.ppid) ?? null;
  }
}
