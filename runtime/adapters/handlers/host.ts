import { availableParallelism } from "node:os";
import type { Isolation, JobDefinition } from "../../config/objects.ts";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type {
  AbortReason,
  HandlerHost,
  HandlerOutcome,
  HandlerRun,
  RunRequest,
} from "../../protocol/ports/handlers.ts";
import type { PrepareChild } from "../../protocol/ports/intake.ts";
import type { NewJob } from "../../protocol/ports/jobs.ts";
import type { Clock } from "../../protocol/ports/surroundings.ts";
import { createBundleCache } from "./bundle-cache.ts";
import { probeBundle } from "./bundle-probe.ts";
import { COMMAND_HANDLER, createCommandRunner } from "./command.ts";
import { type EnqueueRequest, toJobRequest } from "./enqueue-request.ts";
import { createGroupGuard } from "./group-guard.ts";
import { createInlineRunner } from "./inline-runner.ts";
import type { EnqueueAnswer, RealmDefinition, RealmRun, RealmWork, RunMessage } from "./messages.ts";
import { createProcessRunner } from "./process-runner.ts";
import { createThreadPool } from "./thread-pool.ts";
import { UnloadableBundles } from "./unloadable-bundles.ts";

export interface HandlerHostOptions {
  /** Working folder of processes and commands; handlers read it as TURNO_PROJECT_ROOT. */
  readonly projectRoot: string;
  /** Below the project's root, so that packages left out of a bundle are found. */
  readonly bundlesDir: string;
  readonly loadBundle: (hash: string) => Promise<string | null>;
  /** Checks what handlers enqueue. */
  readonly prepareChild: PrepareChild;
  readonly logger: Logger;
  readonly clock: Pick<Clock, "monotonicMs">;
  /** Threads shared by all job types; default: one per core. */
  readonly threads?: number;
  /** Environment of threads beside the worker's own. Processes never get it. */
  readonly threadEnv?: Readonly<Record<string, string>>;
  /** How long after a bundle could not be loaded it is tried again, at first. */
  readonly firstProbeMs?: number | undefined;
}

/** Runs handlers by their isolation, and `builtin/command` as a process without a thread. */
export function createHandlerHost(options: HandlerHostOptions): HandlerHost {
  const { logger, projectRoot, prepareChild } = options;
  const bundles = createBundleCache({ folder: options.bundlesDir, loadBundle: options.loadBundle });
  const projectEnv = { TURNO_PROJECT_ROOT: projectRoot };
  const threadEnv = { ...process.env, ...options.threadEnv, ...projectEnv };
  const threads = createThreadPool({
    threads: Math.max(1, options.threads ?? availableParallelism()),
    env: threadEnv,
    logger,
  });
  const guard = createGroupGuard(logger);
  const processes = createProcessRunner({ cwd: projectRoot, env: projectEnv, logger, guard, clock: options.clock });
  const inline = createInlineRunner(logger);
  const commands = createCommandRunner({ projectRoot, clock: options.clock, guard });
  const realms: Record<Isolation, Realm> = {
    thread: threads,
    process: processes,
    inline,
  };
  const describe = createDefinitions();
  const unloadable = new UnloadableBundles({
    logger,
    firstProbeMs: options.firstProbeMs,
    probe: (hash) =>
      bundles.fetch(hash).then(
        (url) => probeBundle(url, threadEnv),
        (error: unknown) => {
          if (isVerdict(error)) return error.message;
          throw error;
        },
      ),
  });
  const noteUnloadable = (hash: string, detail: string) => unloadable.note(hash, detail);
  const parts: HostRunParts = { noteUnloadable, prepareChild };

  const startAt = (url: string, hash: string, request: RunRequest): HandlerRun => {
    const run = new HostRun(request, describe(request.definition, hash, url), parts);
    run.start(realms[request.alone ? "process" : request.definition.isolation]);
    return run;
  };

  return {
    run(request) {
      const { handler, bundleHash } = request.definition;
      if (handler === COMMAND_HANDLER) return commands.run(request);
      if (bundleHash === null) {
        return settledRun({ kind: "unloadable", detail: `${handler} is not a handler that ships with this version` });
      }
      const reason = unloadable.reason(bundleHash);
      if (reason !== null) return settledRun({ kind: "unloadable", detail: reason });
      const url = bundles.known(bundleHash);
      if (url !== null) return startAt(url, bundleHash, request);
      const waiting = createWaitingRun(request.keepUntilMs);
      bundles.fetch(bundleHash).then(
        (fetched) => waiting.begin((keepUntilMs) => startAt(fetched, bundleHash, { ...request, keepUntilMs })),
        (error: unknown) => {
          // A database that is away says nothing about the bundle: only a verdict is remembered.
          if (isVerdict(error)) {
            noteUnloadable(bundleHash, error.message);
            waiting.settle({ kind: "unloadable", detail: error.message });
          } else
            waiting.settle({ kind: "unloadable", detail: `its code could not be fetched: ${describeError(error)}` });
        },
      );
      return waiting;
    },
    unloadableBundles: () => unloadable.list(),
    retryUnloadable: () => unloadable.recheck(),
    async close() {
      unloadable.close();
      await Promise.all([threads.close(), processes.close(), commands.close()]);
      guard.close();
    },
  };
}

/** Nobody has the code, or it is not what it is kept as. */
function isVerdict(error: unknown): error is TurnoError {
  return error instanceof TurnoError && error.code === "TURNO_HANDLER_LOAD";
}

interface Realm {
  start(work: RealmWork): RealmRun;
}

interface HostRunParts {
  readonly noteUnloadable: (hash: string, detail: string) => void;
  readonly prepareChild: PrepareChild;
}

/** One a job, thousands a second: one object instead of a closure for each of its methods. */
class HostRun implements HandlerRun, RealmWork {
  readonly outcome: Promise<HandlerOutcome>;
  readonly definition: RealmDefinition;
  readonly #request: RunRequest;
  readonly #parts: HostRunParts;
  readonly #deadlineMs: number;
  /** By the number of their call; null: nothing was enqueued. */
  #children: Map<number, NewJob> | null = null;
  #resolve: (outcome: HandlerOutcome) => void = () => {};
  #started: RealmRun | null = null;

  constructor(request: RunRequest, definition: RealmDefinition, parts: HostRunParts) {
    this.#request = request;
    this.definition = definition;
    this.#parts = parts;
    this.#deadlineMs = Date.now() + request.timeoutMs;
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  get jobId(): string {
    return this.#request.job.id;
  }

  get handler(): string {
    return this.#request.definition.handler;
  }

  get keepUntilMs(): number {
    return this.#request.keepUntilMs;
  }

  start(realm: Realm): void {
    this.#started = realm.start(this);
  }

  abort(reason: AbortReason): void {
    this.#started?.abort(reason);
  }

  end(): void {
    this.#started?.end();
  }

  keepUntil(monotonicMs: number): void {
    this.#started?.keepUntil?.(monotonicMs);
  }

  message(runId: number): RunMessage {
    const { job } = this.#request;
    return [
      "run",
      runId,
      this.definition.id,
      job.id,
      JSON.stringify(job.payload),
      job.failures + 1,
      job.execution,
      job.token,
      this.#deadlineMs,
      job.schedule === null
        ? null
        : { name: job.schedule.name, firedForMs: job.schedule.firedFor.getTime(), lateByMs: job.schedule.lateByMs },
      job.revision,
    ];
  }

  onProgress(percent: number, message: string | null): void {
    this.#request.onProgress(percent, message);
  }

  enqueue(call: number, request: EnqueueRequest, answer: (answer: EnqueueAnswer) => void): void {
    this.#children ??= new Map();
    const children = this.#children;
    this.#parts.prepareChild(this.#request.job, toJobRequest(request)).then(
      (prepared) => {
        if ("problem" in prepared) return answer(prepared);
        children.set(call, prepared.child);
        answer({ id: prepared.child.id });
      },
      (error: unknown) => answer({ problem: `"${request.type}" is not enqueued: ${describeError(error)}` }),
    );
  }

  restarted(): void {
    // A new map: what is still being checked belongs to the old one.
    this.#children = null;
  }

  settle(outcome: HandlerOutcome): void {
    if (outcome.kind === "unloadable") this.#parts.noteUnloadable(this.definition.bundleHash, outcome.detail);
    this.#resolve(outcome.kind === "returned" ? this.#withChildren(outcome) : outcome);
  }

  #withChildren(outcome: HandlerOutcome & { readonly kind: "returned" }): HandlerOutcome {
    if (this.#children === null) return outcome;
    const children = [...this.#children].sort(([a], [b]) => a - b).map(([, child]) => child);
    return children.length === 0 ? outcome : { ...outcome, children };
  }
}

/** What realms are told of a definition, with a number of its own; remembered as long as the definition is. */
function createDefinitions(): (definition: JobDefinition, hash: string, url: string) => RealmDefinition {
  const described = new WeakMap<JobDefinition, RealmDefinition>();
  let lastId = 0;
  return (definition, hash, url) => {
    const known = described.get(definition);
    if (known !== undefined) return known;
    const { type, settings, policy } = definition;
    const made = {
      id: ++lastId,
      type,
      settings,
      bundleHash: hash,
      bundleUrl: url,
      immediateRetry: policy.immediateRetry,
    };
    described.set(definition, made);
    return made;
  };
}

/** A run whose code is still on its way to this machine. */
function createWaitingRun(firstKeepUntilMs: number) {
  let settle: (outcome: HandlerOutcome | Promise<HandlerOutcome>) => void = () => {};
  let started: HandlerRun | null = null;
  let keepUntilMs = firstKeepUntilMs;
  let ended = false;
  let abortedBy: AbortReason | null = null;
  return {
    outcome: new Promise<HandlerOutcome>((resolve) => {
      settle = resolve;
    }),
    settle,
    begin(start: (keepUntilMs: number) => HandlerRun): void {
      if (ended) return;
      started = start(keepUntilMs);
      settle(started.outcome);
      if (abortedBy !== null) started.abort(abortedBy);
    },
    abort(reason: AbortReason): void {
      abortedBy ??= reason;
      started?.abort(reason);
    },
    end(): void {
      ended = true;
      // None of its code ran, so nobody is to be charged.
      if (started === null) settle({ kind: "neighbour-ended" });
      else started.end();
    },
    keepUntil(monotonicMs: number): void {
      keepUntilMs = monotonicMs;
      started?.keepUntil?.(monotonicMs);
    },
  };
}

function settledRun(outcome: HandlerOutcome): HandlerRun {
  return { outcome: Promise.resolve(outcome), abort: () => {}, end: () => {} };
}
