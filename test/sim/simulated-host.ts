import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import type {
  AbortReason,
  HandlerHost,
  HandlerOutcome,
  HandlerRun,
  RunRequest,
} from "../../runtime/protocol/ports/handlers.ts";
import type { NewJob } from "../../runtime/protocol/ports/jobs.ts";
import { UNSTORABLE } from "./connection.ts";
import { type HandlerStep, TYPES } from "./plan.ts";
import type { SimulatedProcess } from "./simulated-process.ts";

/** A handler whose code may be running. */
export interface ActiveRun {
  readonly jobId: JobId;
  readonly token: DispatchToken;
  readonly thread: Set<ActiveRun>;
  readonly isAlone: boolean;
  /** Alone or not, a pause of the worker does not stop it. */
  readonly hasProcess: boolean;
  /** Of the worker's clock: its process ends by itself then. */
  keepUntilMs: number;
  abortedFor: AbortReason | null;
  readonly finish: (outcome: HandlerOutcome) => void;
}

const THREADS = 2;
/** From the main thread to a handler's and back. */
const HOP_MS = 0.05;
const ABORT_TAKES_MS = 5;

/** Handlers of one process, in two threads; each goes as its job's payload says. */
export class SimulatedHost implements HandlerHost {
  readonly running = new Set<ActiveRun>();
  /** Bundles of other code than this process has. */
  readonly unloadable: ReadonlySet<string>;
  readonly #process: SimulatedProcess;
  readonly #refused = new Set<string>();
  readonly #threads = Array.from({ length: THREADS }, () => new Set<ActiveRun>());

  constructor(process: SimulatedProcess, unloadable: ReadonlySet<string>) {
    this.#process = process;
    this.unloadable = unloadable;
  }

  run(request: RunRequest): HandlerRun {
    const { job, definition, alone, keepUntilMs } = request;
    const { simulation } = this.#process;
    if (definition.bundleHash !== null && this.unloadable.has(definition.bundleHash)) {
      this.#refused.add(definition.bundleHash);
      const outcome = Promise.resolve<HandlerOutcome>({ kind: "unloadable", detail: `${job.type} cannot be loaded` });
      return { outcome, abort: () => {}, end: () => {} };
    }
    const [first, second] = this.#threads as [Set<ActiveRun>, Set<ActiveRun>];
    const hasProcess = alone || definition.isolation === "process";
    const thread = hasProcess ? new Set<ActiveRun>() : first.size <= second.size ? first : second;
    let resolve: (outcome: HandlerOutcome) => void = () => {};
    const outcome = new Promise<HandlerOutcome>((settle) => (resolve = settle));
    const run: ActiveRun = {
      jobId: job.id,
      token: job.token,
      thread,
      isAlone: alone,
      hasProcess,
      keepUntilMs,
      abortedFor: null,
      finish: (ending) => {
        if (!this.running.delete(run)) return;
        thread.delete(run);
        this.#note(run, ending.kind);
        simulation.world.after(HOP_MS, () => resolve(ending), this.#process);
      },
    };
    this.running.add(run);
    thread.add(run);
    simulation.auditor.handlerStarted(this.#process, run);
    this.#note(run, alone ? "starts alone" : "starts");
    this.#play(request, run, stepOf(request));
    if (hasProcess) this.#watchDeadline(run);
    return {
      outcome,
      abort: (reason) => {
        run.abortedFor = reason;
        simulation.auditor.handlerAsked(run);
        if (reason === "time-out") simulation.reach.met("handler timed out");
        this.#note(run, `abort ${reason}`);
        this.#onThread(run, HOP_MS + ABORT_TAKES_MS, () => this.#obey(run, stepOf(request)));
      },
      end: () => this.#end(run),
      keepUntil: (monotonicMs) => {
        run.keepUntilMs = monotonicMs;
        if (hasProcess) this.#watchDeadline(run);
      },
    };
  }

  /** The thread that each process has for it; a later deadline makes this one mean nothing. */
  #watchDeadline(run: ActiveRun): void {
    const { keepUntilMs } = run;
    const leftMs = this.#process.worldMs(keepUntilMs - this.#process.monotonicMs());
    this.#onThread(run, Math.max(0, leftMs), () => {
      if (run.keepUntilMs !== keepUntilMs) return;
      this.#process.simulation.reach.met("process of a job ended by its own deadline");
      run.finish({ kind: "cut-off" });
    });
  }

  unloadableBundles(): readonly string[] {
    return [...this.#refused];
  }

  retryUnloadable(): void {
    for (const hash of this.#refused) if (!this.unloadable.has(hash)) this.#refused.delete(hash);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #play(request: RunRequest, run: ActiveRun, step: HandlerStep): void {
    const { simulation } = this.#process;
    if (step.progress) {
      this.#onThread(run, step.takesMs / 2, () =>
        simulation.world.after(HOP_MS, () => request.onProgress(50, "half of it"), this.#process),
      );
    }
    if (step.ends === "hangs") return;
    // Half of those that do not listen never end by themselves.
    if (step.ends === "ignores-abort" && run.token % 2n === 0n) return;
    const takesMs = step.ends === "ignores-abort" ? step.takesMs * 3 + 1_000 : step.takesMs;
    this.#onThread(run, takesMs, () => this.#come(run, step));
  }

  /** The handler comes to its own end. */
  #come(run: ActiveRun, { ends, children }: HandlerStep): void {
    switch (ends) {
      case "returns":
      case "ignores-abort":
        run.finish(returned(`{"token":"${run.token}"}`, this.#enqueued(run, children ?? 0)));
        break;
      case "snoozes":
        run.finish({ kind: "snoozed", forMs: 300 + Number(run.token % 5n) * 400 });
        break;
      case "unstorable":
        run.finish(returned(`{"token":"${run.token}","text":"${UNSTORABLE}"}`));
        break;
      case "throws":
        run.finish(threw("boom"));
        break;
      case "permanent":
        run.finish(threw("never again", { permanent: true }));
        break;
      case "retry-after":
        run.finish(threw("later", { retryAfterMs: 700 }));
        break;
      case "thread-dies":
        for (const victim of [...run.thread])
          victim.finish({ kind: "crashed", detail: "its thread ran out of memory" });
        break;
      case "kills-process":
        if (run.hasProcess) run.finish({ kind: "crashed", detail: "killed by SIGSEGV" });
        else this.#process.killedByJob();
        break;
      case "hangs":
        break;
    }
  }

  /** What a handler does that has heard of its abort. */
  #obey(run: ActiveRun, step: HandlerStep): void {
    if (step.ends === "ignores-abort") return;
    // Some have just done their work by then.
    if (step.ends === "returns" && run.token % 3n === 0n) run.finish(returned(`{"token":"${run.token}"}`));
    else run.finish(threw(`aborted: ${run.abortedFor}`));
  }

  #enqueued({ jobId, token }: ActiveRun, count: number): readonly NewJob[] {
    const step: HandlerStep = { takesMs: 30, ends: "returns", progress: false };
    return Array.from({ length: count }, (_, index) => ({
      id: this.#process.simulation.ids.jobId(),
      type: TYPES[(Number(token) + index) % TYPES.length] ?? "work",
      queue: null,
      payload: { steps: [{ ...step }] },
      priority: 0,
      due: null,
      maxAttempts: null,
      timeoutMs: null,
      parentId: jobId,
    }));
  }

  #end(run: ActiveRun): void {
    if (!this.running.has(run)) return;
    const { reach } = this.#process.simulation;
    reach.met("handler cut off");
    run.finish({ kind: "cut-off" });
    for (const neighbour of [...run.thread]) {
      reach.met("neighbour ended with it");
      neighbour.finish({ kind: "neighbour-ended" });
    }
  }

  #onThread(run: ActiveRun, delayMs: number, act: () => void): void {
    this.#process.simulation.world.after(
      delayMs,
      () => {
        if (this.running.has(run)) act();
      },
      run.hasProcess ? null : this.#process,
      true,
    );
  }

  #note(run: ActiveRun, what: string): void {
    const { world } = this.#process.simulation;
    world.trace.note(world.nowMs, this.#process.name, "handler", `#${run.token} ${what}`);
  }
}

const PLAIN: HandlerStep = { takesMs: 200, ends: "returns", progress: false };

/** Jobs of schedules have no steps of their own: they take a while, some longer than others. */
export function stepOf({ job }: Pick<RunRequest, "job">): HandlerStep {
  const { steps } = job.payload as { readonly steps?: readonly HandlerStep[] };
  if (steps === undefined) return { ...PLAIN, takesMs: 20 + Number(job.token % 17n) * 150 };
  return steps[Math.min(job.execution, steps.length) - 1] ?? PLAIN;
}

function returned(result: string, children: readonly NewJob[] = []): HandlerOutcome {
  return { kind: "returned", result, resultError: null, ...(children.length > 0 ? { children } : {}) };
}

function threw(
  message: string,
  options: { readonly permanent?: boolean; readonly retryAfterMs?: number } = {},
): HandlerOutcome {
  const { permanent = false, retryAfterMs = null } = options;
  return { kind: "threw", error: { name: "Error", message, stack: null, permanent, retryAfterMs } };
}
