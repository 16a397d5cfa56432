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
import type { Clock } from "../../protocol/ports/surroundings.ts";
import { createBundleCache } from "./bundle-cache.ts";
import { COMMAND_HANDLER, createCommandRunner } from "./command.ts";
import { createInlineRunner } from "./inline-runner.ts";
import type { RealmDefinition, RealmRun, RealmWork } from "./messages.ts";
import { createProcessRunner } from "./process-runner.ts";
import { createThreadPool } from "./thread-pool.ts";

export interface HandlerHostOptions {
  /** Working folder of processes and commands; handlers read it as TURNO_PROJECT_ROOT. */
  readonly projectRoot: string;
  /** Below the project's root, so that packages left out of a bundle are found. */
  readonly bundlesDir: string;
  readonly loadBundle: (hash: string) => Promise<string | null>;
  readonly logger: Logger;
  readonly clock: Pick<Clock, "monotonicMs">;
  /** Threads shared by all job types; default: one per core. */
  readonly threads?: number;
  /** Environment of threads beside the worker's own. Processes never get it. */
  readonly threadEnv?: Readonly<Record<string, string>>;
}

/** Runs handlers by their isolation, and `builtin/command` as a process without a thread. */
export function createHandlerHost(options: HandlerHostOptions): HandlerHost {
  const { logger, projectRoot } = options;
  const bundles = createBundleCache({ folder: options.bundlesDir, loadBundle: options.loadBundle });
  const projectEnv = { TURNO_PROJECT_ROOT: projectRoot };
  const threads = createThreadPool({
    threads: Math.max(1, options.threads ?? availableParallelism()),
    env: { ...process.env, ...options.threadEnv, ...projectEnv },
    logger,
  });
  const processes = createProcessRunner({ cwd: projectRoot, env: projectEnv, logger });
  const inline = createInlineRunner(logger);
  const commands = createCommandRunner({ projectRoot, clock: options.clock });
  const realms: Record<Isolation, { start(work: RealmWork): RealmRun }> = {
    thread: threads,
    process: processes,
    inline,
  };
  const describe = createDefinitions();
  const unloadable = new Set<string>();

  const settleUnloadable = (hash: string, detail: string, settle: (outcome: HandlerOutcome) => void) => {
    unloadable.add(hash);
    logger.error("a handler cannot be loaded here", { bundle: hash, detail });
    settle({ kind: "unloadable", detail });
  };

  const startAt = (url: string, hash: string, request: RunRequest, settle: (outcome: HandlerOutcome) => void) => {
    const { job, definition } = request;
    const realm = realms[request.alone ? "process" : definition.isolation];
    const deadlineMs = Date.now() + request.timeoutMs;
    return realm.start({
      jobId: job.id,
      handler: definition.handler,
      definition: describe(definition, hash, url),
      message: (runId) => [
        "run",
        runId,
        describe(definition, hash, url).id,
        job.id,
        JSON.stringify(job.payload),
        job.failures + 1,
        job.execution,
        job.token,
        deadlineMs,
        job.schedule === null
          ? null
          : {
              name: job.schedule.name,
              firedForMs: job.schedule.firedFor.getTime(),
              lateByMs: job.schedule.lateByMs,
            },
        job.revision,
      ],
      onProgress: request.onProgress,
      settle: (outcome) => {
        if (outcome.kind === "unloadable") settleUnloadable(hash, outcome.detail, settle);
        else settle(outcome);
      },
    });
  };

  return {
    run(request) {
      const { handler, bundleHash } = request.definition;
      if (handler === COMMAND_HANDLER) return commands.run(request);
      if (bundleHash === null) {
        return settledRun({ kind: "unloadable", detail: `${handler} is not a handler that ships with this version` });
      }
      let settle: (outcome: HandlerOutcome) => void = () => {};
      const outcome = new Promise<HandlerOutcome>((resolve) => {
        settle = resolve;
      });
      const url = bundles.known(bundleHash);
      if (url !== null) {
        const started = startAt(url, bundleHash, request, settle);
        return { outcome, abort: started.abort, end: started.end };
      }
      const waiting = createWaitingRun(settle);
      bundles.fetch(bundleHash).then(
        (fetched) => waiting.begin(() => startAt(fetched, bundleHash, request, settle)),
        (error: unknown) => {
          // A database that is away says nothing about the bundle: only a verdict is remembered.
          if (error instanceof TurnoError && error.code === "TURNO_HANDLER_LOAD") {
            settleUnloadable(bundleHash, error.message, settle);
          } else settle({ kind: "unloadable", detail: `its code could not be fetched: ${describeError(error)}` });
        },
      );
      return { outcome, abort: waiting.abort, end: waiting.end };
    },
    unloadableBundles: () => [...unloadable],
    async close() {
      await Promise.all([threads.close(), processes.close(), commands.close()]);
    },
  };
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
function createWaitingRun(settle: (outcome: HandlerOutcome) => void) {
  let started: RealmRun | null = null;
  let ended = false;
  let abortedBy: AbortReason | null = null;
  return {
    begin(start: () => RealmRun): void {
      if (ended) return;
      started = start();
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
  };
}

function settledRun(outcome: HandlerOutcome): HandlerRun {
  return { outcome: Promise.resolve(outcome), abort: () => {}, end: () => {} };
}
