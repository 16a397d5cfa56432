import type { WorkerId } from "../core/ids.ts";
import type { Execution } from "../protocol/execution.ts";
import type { Leases } from "../protocol/leases.ts";
import type { ExecutionStore } from "../protocol/ports/jobs.ts";
import type { DatabaseWatch } from "./database-watch.ts";
import { createGatheredWrite, type GatheredWrite } from "./gathered-write.ts";
import { type Loop, type LoopSurroundings, startLoop } from "./supervised-loop.ts";
import type { Supply } from "./supply.ts";
import type { WorkQueue } from "./work-queue.ts";

export interface SweepOptions extends LoopSurroundings {
  readonly workerId: WorkerId;
  readonly store: Pick<ExecutionStore, "markStarted" | "reportProgress" | "returnClaims">;
  readonly leases: Leases;
  readonly running: ReadonlySet<Execution>;
  readonly queues: readonly WorkQueue[];
  readonly supply: Pick<Supply, "poll" | "pump">;
  readonly watch: DatabaseWatch;
  readonly cutOffMs: () => number;
  /** A claim is off this worker's hands without having run. */
  readonly onGivenBack: (execution: Execution) => void;
}

/** Ending a thread or a process takes less; what still runs then cannot be ended. */
const RUNS_ON_AFTER_MS = 10_000;
const SWEEP_MS = 100;
const POLL_MS = 1_000;
/** Shorter runs write no start of their own; their finish tells it. */
const START_WRITTEN_AFTER_MS = 250;
const WAITS_AT_MOST_MS = 1_000;
const PROGRESS_EVERY_MS = 500;

/**
 * One timer for everything that happens to executions by time, instead of several for each: renewals, time-outs, the
 * end of patience, starts and progress to be written, claims to be given back, and the poll.
 */
export class ExecutionSweep {
  readonly #options: SweepOptions;
  readonly #starts: GatheredWrite<Execution>;
  readonly #progress: GatheredWrite<Execution>;
  readonly #returns: GatheredWrite<Execution>;
  readonly #loop: Loop;
  #resting = false;
  #nextPollMs: number;
  #nextProgressMs = 0;
  #cutOffs = 0;

  constructor(options: SweepOptions) {
    this.#options = options;
    this.#nextPollMs = options.clock.monotonicMs();
    const onError = (error: unknown): void => options.watch.failed(error);
    this.#starts = createGatheredWrite<Execution>({
      clock: options.clock,
      send: (items) => this.#sendStarts(items),
      isWanted: (execution) => execution.phase === "running" && !execution.startWritten,
      onSent: (execution) => {
        execution.startWritten = true;
      },
      onError,
    });
    this.#progress = createGatheredWrite<Execution>({
      clock: options.clock,
      send: (items) => this.#sendProgress(items),
      isWanted: (execution) => execution.phase === "running" && execution.progress !== null,
      onSent: () => {},
      onError,
    });
    this.#returns = createGatheredWrite<Execution>({
      clock: options.clock,
      send: (items) => options.store.returnClaims(options.workerId, items.map(ownership)),
      isWanted: (execution) => execution.phase === "finishing",
      onSent: (execution) => {
        options.leases.release(execution);
        options.onGivenBack(execution);
      },
      onError,
    });
    this.#loop = startLoop({ ...options, name: "worker sweep", cycle: () => Promise.resolve(this.#sweep()) });
  }

  /** There is something to look after. */
  soon(): void {
    if (!this.#resting) return;
    this.#resting = false;
    this.#loop.wake();
  }

  /** Unstarted claims go back; they are this worker's until the database has heard of it. */
  giveBack(executions: readonly Execution[]): void {
    for (const execution of executions) {
      execution.phase = "finishing";
      this.#returns.add(execution);
    }
    this.#returns.flush();
    this.soon();
  }

  /** Progress to be written; the newest replaces what has not gone out. */
  note(execution: Execution, progress: { readonly percent: number; readonly message: string | null }): void {
    execution.progress = progress;
    this.#progress.add(execution);
  }

  /** Handlers that had to be ended so far, and those that go on all the same. */
  stuck(): { readonly handlersCutOff: number; readonly handlersStuck: number } {
    let handlersStuck = 0;
    for (const execution of this.#options.running) if (execution.runsOn) handlersStuck += 1;
    return { handlersCutOff: this.#cutOffs, handlersStuck };
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** Milliseconds until the next sweep. */
  #sweep(): number {
    const { clock, random, leases, running, queues, supply } = this.#options;
    const nowMs = clock.monotonicMs();
    void leases.tick();
    for (const execution of running) this.#look(execution, nowMs);
    for (const queue of queues) this.#returnStale(queue, nowMs);
    this.#starts.flush();
    this.#returns.flush();
    if (nowMs >= this.#nextProgressMs) {
      this.#nextProgressMs = nowMs + PROGRESS_EVERY_MS;
      this.#progress.flush();
    }
    if (nowMs >= this.#nextPollMs) {
      this.#nextPollMs = nowMs + POLL_MS * (0.75 + random.next() / 2);
      supply.poll();
    } else supply.pump();
    const busy = leases.held().size > 0 || running.size > 0 || queues.some((queue) => queue.appetite === "rescan");
    this.#resting = !busy;
    return busy ? SWEEP_MS : this.#nextPollMs - nowMs;
  }

  #look(execution: Execution, nowMs: number): void {
    const { startedMs, timeoutMs, abortedMs, cutOffMs } = execution;
    if (startedMs === null) return;
    if (!execution.startWritten && nowMs - startedMs >= START_WRITTEN_AFTER_MS) this.#starts.add(execution);
    if (abortedMs === null && nowMs - startedMs >= timeoutMs) execution.abort("time-out", nowMs);
    if (abortedMs === null) return;
    if (cutOffMs === null && nowMs - abortedMs >= this.#options.cutOffMs()) this.#cutOff(execution, nowMs);
    if (cutOffMs !== null && !execution.runsOn && nowMs - cutOffMs >= RUNS_ON_AFTER_MS) this.#runsOn(execution, nowMs);
  }

  #runsOn(execution: Execution, nowMs: number): void {
    const { jobId, job, abortedMs } = execution;
    execution.runsOn = true;
    const sinceMs = Math.round(nowMs - (abortedMs ?? nowMs));
    this.#options.observer.observe({ kind: "handler-runs-on", jobId, type: job.type, sinceMs });
  }

  #cutOff(execution: Execution, nowMs: number): void {
    const { jobId, job, abortReason } = execution;
    execution.cutOffMs = nowMs;
    this.#cutOffs += 1;
    this.#options.observer.observe({ kind: "handler-stuck", jobId, type: job.type, reason: abortReason ?? "" });
    execution.run?.end();
  }

  #returnStale(queue: WorkQueue, nowMs: number): void {
    const stale = queue.takeStale(nowMs - WAITS_AT_MOST_MS);
    if (stale.length === 0) return;
    queue.pace.distrust();
    this.giveBack(stale);
  }

  #sendStarts(items: readonly Execution[]): Promise<void> {
    const nowMs = this.#options.clock.monotonicMs();
    const starts = items.map((execution) => ({
      ...ownership(execution),
      runningMs: nowMs - (execution.startedMs ?? nowMs),
    }));
    return this.#options.store.markStarted(this.#options.workerId, starts);
  }

  async #sendProgress(items: readonly Execution[]): Promise<void> {
    const reports = items.flatMap((execution) => {
      const { progress } = execution;
      execution.progress = null;
      return progress === null ? [] : [{ execution, progress }];
    });
    try {
      await this.#options.store.reportProgress(
        this.#options.workerId,
        reports.map(({ execution, progress }) => ({ ...ownership(execution), ...progress })),
      );
    } catch (error) {
      for (const { execution, progress } of reports) execution.progress ??= progress;
      throw error;
    }
  }
}

function ownership({ jobId, token }: Execution) {
  return { jobId, token };
}
