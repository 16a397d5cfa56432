import type { Json } from "../../core/json.ts";
import type {
  AbortReason,
  HandlerError,
  HandlerHost,
  HandlerOutcome,
  HandlerRun,
  RunRequest,
} from "../../protocol/ports/handlers.ts";
import type { NewJob } from "../../protocol/ports/jobs.ts";

/** What a scripted handler sees of its run. */
export interface ScriptContext {
  readonly request: RunRequest;
  readonly signal: AbortSignal;
  /** Returned by the script: not done yet, again after this long. */
  snooze(forMs: number): ScriptSnooze;
  /** To be inserted with its success. */
  enqueue(child: NewJob): void;
  /** Dies with its process. */
  crash(detail: string): void;
}

class ScriptSnooze {
  readonly forMs: number;
  constructor(forMs: number) {
    this.forMs = forMs;
  }
}

export type Script = (payload: Json, context: ScriptContext) => unknown;

export interface MemoryHandlerHost extends HandlerHost {
  /** Runs now, by job type. */
  readonly running: ReadonlySet<RunRequest>;
  /** Every run so far. */
  readonly runs: RunRequest[];
  /** What was asked of runs, in order: `abort time-out`, `end`. */
  readonly asked: string[];
  /** Bundles that this host cannot load. */
  readonly unloadable: Set<string>;
}

/** Runs scripted handlers in this thread, by job type. A type without a script returns null at once. */
export function createMemoryHandlerHost(scripts: Readonly<Record<string, Script>> = {}): MemoryHandlerHost {
  const running = new Set<RunRequest>();
  const runs: RunRequest[] = [];
  const asked: string[] = [];
  const unloadable = new Set<string>();
  const refused = new Set<string>();
  return {
    running,
    runs,
    asked,
    unloadable,
    run(request) {
      runs.push(request);
      const { bundleHash } = request.definition;
      if (bundleHash !== null && unloadable.has(bundleHash)) {
        refused.add(bundleHash);
        const outcome = Promise.resolve<HandlerOutcome>({ kind: "unloadable", detail: `${bundleHash} is not here` });
        return { outcome, abort: () => {}, end: () => {} };
      }
      running.add(request);
      return runScript(request, scripts[request.job.type] ?? (() => null), {
        asked: (what) => asked.push(what),
        ended: () => running.delete(request),
      });
    },
    unloadableBundles: () => [...refused],
    retryUnloadable() {
      for (const hash of refused) if (!unloadable.has(hash)) refused.delete(hash);
    },
    close: () => Promise.resolve(),
  };
}

const NOTHING: Promise<HandlerOutcome> = Promise.resolve({ kind: "returned", result: null, resultError: null });

/** Every handler returns nothing, at once: what is left is the cost of the engine. */
export function createInstantHost(): HandlerHost {
  const run: HandlerRun = { outcome: NOTHING, abort: () => {}, end: () => {} };
  return { run: () => run, unloadableBundles: () => [], retryUnloadable: () => {}, close: () => Promise.resolve() };
}

function runScript(
  request: RunRequest,
  script: Script,
  notes: { asked(what: string): void; ended(): void },
): HandlerRun {
  const controller = new AbortController();
  let finish: (outcome: HandlerOutcome) => void = () => {};
  const outcome = new Promise<HandlerOutcome>((resolve) => {
    finish = (ending) => {
      notes.ended();
      resolve(ending);
    };
  });
  const children: NewJob[] = [];
  const context: ScriptContext = {
    request,
    signal: controller.signal,
    snooze: (forMs) => new ScriptSnooze(forMs),
    enqueue: (child) => children.push(child),
    crash: (detail) => finish({ kind: "crashed", detail }),
  };
  Promise.resolve()
    .then(() => script(request.job.payload, context))
    .then(
      (result) => finish(readReturned(result, children)),
      (error: unknown) => finish({ kind: "threw", error: readError(error) }),
    );
  return {
    outcome,
    abort(reason: AbortReason) {
      notes.asked(`abort ${reason}`);
      controller.abort(reason);
    },
    end() {
      notes.asked("end");
      finish({ kind: "cut-off" });
    },
  };
}

function readReturned(result: unknown, children: readonly NewJob[]): HandlerOutcome {
  if (result instanceof ScriptSnooze) return { kind: "snoozed", forMs: result.forMs };
  return {
    kind: "returned",
    result: result === undefined ? null : JSON.stringify(result),
    resultError: null,
    ...(children.length > 0 ? { children } : {}),
  };
}

function readError(error: unknown): HandlerError {
  const {
    name = "Error",
    message = String(error),
    stack = null,
    turnoOutcome,
    after,
  } = error as Partial<Error & { turnoOutcome: string; after: unknown }>;
  return {
    name,
    message,
    stack,
    permanent: turnoOutcome === "permanent",
    retryAfterMs: turnoOutcome === "retry-after" && typeof after === "number" ? after : null,
  };
}
