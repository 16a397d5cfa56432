import { Worker } from "node:worker_threads";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { AbortReason } from "../../protocol/ports/handlers.ts";
import { entryFile } from "./entry-file.ts";
import { hear } from "./hear.ts";
import type { FromRealm, RealmDefinition, RealmRun, RealmStart, RealmWork, ToRealm } from "./messages.ts";
import { forwardLines, forwardLog } from "./output.ts";

/** Modules are never freed: a thread with more replaced bundles than this takes no new jobs and ends when idle. */
const MAX_SUPERSEDED = 4;
/** Definitions a thread is told before it forgets them all. */
const MAX_DEFINITIONS = 256;
/** Threads for the jobs of one type that had to be cut off or crashed. */
const MAX_OWN_THREADS = 8;
/** An own thread without a job ends after this long. */
const OWN_IDLE_MS = 30_000;
/** Run ids are 32-bit numbers in shared memory. */
const MAX_RUNS = 2 ** 30;
const SHARED = "";

export interface ThreadPool {
  start(work: RealmWork): RealmRun;
  /** Threads that exist, draining ones included. */
  size(): number;
  close(): Promise<void>;
}

export interface ThreadPoolOptions {
  readonly threads: number;
  readonly env: NodeJS.ProcessEnv;
  readonly logger: Logger;
}

/** One run in its thread, and what its starter holds of it. */
class Running implements RealmRun {
  readonly id: number;
  readonly work: RealmWork;
  readonly #thread: Thread;
  readonly #cutOff: (thread: Thread, run: Running) => void;
  ended = false;

  constructor(id: number, work: RealmWork, thread: Thread, cutOff: (thread: Thread, run: Running) => void) {
    this.id = id;
    this.work = work;
    this.#thread = thread;
    this.#cutOff = cutOff;
  }

  abort(reason: AbortReason): void {
    if (this.#thread.runs.has(this.id)) post(this.#thread, ["abort", this.id, reason]);
  }

  end(): void {
    if (this.#thread.runs.has(this.id)) this.#cutOff(this.#thread, this);
  }
}

interface Thread {
  readonly worker: Worker;
  /** Empty: shared by all types; otherwise the type and bundle that it is kept for. */
  readonly group: string;
  readonly runs: Map<number, Running>;
  readonly bundles: Set<string>;
  readonly handlers: Set<string>;
  readonly definitions: Set<number>;
  readonly lastBegun: Int32Array;
  readonly exited: Promise<void>;
  outgoing: ToRealm[];
  lastRunId: number;
  draining: boolean;
  terminating: boolean;
  idleSinceMs: number;
  failure: unknown;
}

/** A few threads that share all jobs; job types that spoil a thread for others get threads of their own. */
export function createThreadPool({ threads: sharedLimit, env, logger }: ThreadPoolOptions): ThreadPool {
  const threads = new Set<Thread>();
  /** Groups (type and bundle) that no longer run among others; new code gets a new chance. */
  const apart = new Set<string>();
  let closed = false;

  const sweep = setInterval(() => {
    const limit = performance.now() - OWN_IDLE_MS;
    for (const thread of threads) {
      if (thread.group !== SHARED && thread.runs.size === 0 && thread.idleSinceMs < limit) terminate(thread);
    }
  }, OWN_IDLE_MS / 2);
  sweep.unref();

  const terminate = (thread: Thread) => {
    if (thread.terminating) return;
    thread.terminating = true;
    thread.draining = true;
    thread.worker.terminate().catch((error: unknown) => {
      logger.error("a handler thread could not be ended", { error: describeError(error) });
    });
  };

  const setApart = (run: Running) => apart.add(groupOf(run.work.definition));

  const cutOff = (thread: Thread, run: Running) => {
    run.ended = true;
    setApart(run);
    terminate(thread);
  };

  const onExit = (thread: Thread, exitCode: number) => {
    threads.delete(thread);
    const runs = [...thread.runs.values()];
    thread.runs.clear();
    const begun = runs.filter((run) => run.id <= (thread.lastBegun[0] ?? 0));
    if (thread.terminating) {
      // Whoever had begun may be what blocked the thread for the one that was cut off before its own beginning.
      if (runs.some((run) => run.ended && !begun.includes(run))) begun.forEach(setApart);
      for (const run of runs) {
        run.work.settle({ kind: run.ended && begun.includes(run) ? "cut-off" : "neighbour-ended" });
      }
      return;
    }
    const detail = describeCrash(thread, exitCode);
    logger.error("a handler thread died", { detail, jobs: begun.length });
    // Nobody knows which of several it was: apart from each other, the next crash tells.
    if (begun.length > 1) begun.forEach(setApart);
    const noneBegun = begun.length === 0;
    for (const run of runs) {
      const innocent = !noneBegun && !begun.includes(run);
      run.work.settle(innocent ? { kind: "neighbour-ended" } : { kind: "crashed", detail });
    }
  };

  const onMessage = (thread: Thread, batch: readonly FromRealm[]) => {
    const reply = (answer: ToRealm) => post(thread, answer);
    for (const message of batch) {
      if (message[0] === "log") {
        forwardLog(logger, message);
        continue;
      }
      const run = thread.runs.get(message[1]);
      if (run === undefined) continue;
      // What a thread failed to load it never loads; the next one may find it mended.
      if (message[0] === "done" && message[2].kind === "unloadable") thread.draining = true;
      if (hear(run.work, message, reply)) thread.runs.delete(run.id);
    }
    if (thread.runs.size > 0) return;
    thread.idleSinceMs = performance.now();
    if (thread.draining) terminate(thread);
  };

  const open = (group: string): Thread => {
    const shared = new SharedArrayBuffer(4);
    const start: RealmStart = { lastBegun: shared };
    const worker = new Worker(entryFile("thread-entry"), {
      name: "turno-handlers",
      workerData: start,
      env,
      execArgv: [],
      stdout: true,
      stderr: true,
    });
    const thread: Thread = {
      worker,
      group,
      runs: new Map(),
      bundles: new Set(),
      handlers: new Set(),
      definitions: new Set(),
      lastBegun: new Int32Array(shared),
      exited: new Promise((resolve) => worker.once("exit", () => resolve())),
      outgoing: [],
      lastRunId: 0,
      draining: false,
      terminating: false,
      idleSinceMs: performance.now(),
      failure: undefined,
    };
    worker.on("message", (batch: readonly FromRealm[]) => onMessage(thread, batch));
    worker.on("error", (error) => {
      thread.failure = error;
    });
    worker.on("messageerror", (error) =>
      logger.error("a handler thread's message was not readable", { error: describeError(error) }),
    );
    worker.once("exit", (exitCode) => onExit(thread, exitCode));
    forwardLines(worker.stdout, (line) => logger.info(line, { stream: "stdout", threadId: worker.threadId }));
    forwardLines(worker.stderr, (line) => logger.warn(line, { stream: "stderr", threadId: worker.threadId }));
    threads.add(thread);
    return thread;
  };

  const choose = (group: string): Thread => {
    let best: Thread | null = null;
    let count = 0;
    for (const thread of threads) {
      if (thread.draining || thread.group !== group) continue;
      count++;
      if (best === null || thread.runs.size < best.runs.size) best = thread;
    }
    const limit = group === SHARED ? sharedLimit : MAX_OWN_THREADS;
    return best === null || (best.runs.size > 0 && count < limit) ? open(group) : best;
  };

  return {
    start(work) {
      if (closed) {
        work.settle({ kind: "neighbour-ended" });
        return { abort: () => {}, end: () => {} };
      }
      const group = apart.size > 0 ? groupOf(work.definition) : SHARED;
      const thread = choose(apart.has(group) ? group : SHARED);
      const id = ++thread.lastRunId;
      const run = new Running(id, work, thread, cutOff);
      thread.runs.set(id, run);
      if (id >= MAX_RUNS) thread.draining = true;
      introduce(thread, work);
      post(thread, work.message(id));
      return run;
    },
    size: () => threads.size,
    async close() {
      closed = true;
      clearInterval(sweep);
      const ending = [...threads];
      for (const thread of ending) {
        for (const run of thread.runs.values()) run.ended = true;
        terminate(thread);
      }
      await Promise.all(ending.map((thread) => thread.exited));
    },
  };
}

/** Tells the thread the definition once, and lets it drain when too much replaced code has gathered in it. */
function introduce(thread: Thread, { definition, handler }: RealmWork): void {
  if (thread.definitions.has(definition.id)) return;
  if (thread.definitions.size >= MAX_DEFINITIONS) {
    thread.definitions.clear();
    post(thread, ["forget"]);
  }
  thread.definitions.add(definition.id);
  post(thread, ["define", definition]);
  thread.bundles.add(definition.bundleHash);
  thread.handlers.add(handler);
  if (thread.bundles.size - thread.handlers.size > MAX_SUPERSEDED) thread.draining = true;
}

/** What is posted in one turn goes as one message: a hop costs more than the work of several jobs. */
function post(thread: Thread, message: ToRealm): void {
  if (thread.terminating) return;
  thread.outgoing.push(message);
  if (thread.outgoing.length > 1) return;
  queueMicrotask(() => {
    const batch = thread.outgoing;
    thread.outgoing = [];
    thread.worker.postMessage(batch);
  });
}

function groupOf(definition: RealmDefinition): string {
  return `${definition.type} ${definition.bundleHash}`;
}

function describeCrash(thread: Thread, exitCode: number): string {
  if (thread.failure === undefined) return `its thread ended itself with exit code ${exitCode}`;
  const failure = thread.failure;
  const stack = failure instanceof Error && typeof failure.stack === "string" ? failure.stack : describeError(failure);
  return `its thread died of an error that no handler caught: ${stack.split("\n").slice(0, 6).join("\n")}`;
}
