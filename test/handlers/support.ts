import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import { bundleHandlers } from "../../runtime/adapters/handlers/bundle.ts";
import { createHandlerHost, type HandlerHostOptions } from "../../runtime/adapters/handlers/host.ts";
import type { Isolation, JobDefinition, PolicySpec } from "../../runtime/config/objects.ts";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import type { Json, JsonObject } from "../../runtime/core/json.ts";
import type { Logger } from "../../runtime/core/logger.ts";
import type { HandlerHost, HandlerOutcome, HandlerRun } from "../../runtime/protocol/ports/handlers.ts";
import type { PrepareChild } from "../../runtime/protocol/ports/intake.ts";
import type { ClaimedJob } from "../../runtime/protocol/ports/jobs.ts";

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A folder with these files that is gone after the test. */
export function makeFolder(files: Readonly<Record<string, string>> = {}): string {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "turno-handlers-")));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) writeProjectFile(root, path, text);
  return root;
}

export function writeProjectFile(root: string, path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

export interface RunOptions {
  readonly payload?: Json;
  readonly settings?: JsonObject;
  readonly isolation?: Isolation;
  readonly alone?: boolean;
  readonly type?: string;
  readonly immediateRetry?: PolicySpec["immediateRetry"];
  readonly failures?: number;
  readonly schedule?: ClaimedJob["schedule"];
  readonly onProgress?: (percent: number, message: string | null) => void;
}

export interface Workbench {
  readonly root: string;
  readonly host: HandlerHost;
  readonly logs: LogLine[];
  /** Bundles the file as it is now and starts it. */
  start(handler: string, options?: RunOptions): Promise<HandlerRun>;
  run(handler: string, options?: RunOptions): Promise<HandlerOutcome>;
  /** Starts and waits for the handler's first progress. */
  startAndWait(handler: string, options?: RunOptions): Promise<HandlerRun>;
  /** Resolves with the first log line, past or to come, that has this message. */
  logged(message: string): Promise<LogLine>;
}

/** A project folder with handlers and a host that runs them. */
export function openWorkbench(
  handlers: Readonly<Record<string, string>>,
  hostOptions: Partial<HandlerHostOptions> = {},
): Workbench {
  const root = makeFolder();
  for (const [path, text] of Object.entries(handlers)) writeProjectFile(root, join("handlers", path), text);
  const codes = new Map<string, string>();
  const { logger, logs, logged } = recordLogs();
  const host = createHandlerHost({
    projectRoot: root,
    bundlesDir: join(root, ".turno", "bundles"),
    loadBundle: async (hash) => codes.get(hash) ?? null,
    prepareChild: refuseChildren,
    logger,
    clock: { monotonicMs: () => performance.now() },
    ...hostOptions,
  });
  onTestFinished(() => host.close());
  const definitions = new Map<string, JobDefinition>();

  const start = async (handler: string, options: RunOptions = {}): Promise<HandlerRun> => {
    const { bundles, problems } = await bundleHandlers({ root, handlersDir: "handlers", entries: [handler] });
    const bundle = bundles[0];
    if (bundle === undefined) throw new Error(JSON.stringify(problems));
    codes.set(bundle.hash, bundle.code);
    const wanted = makeDefinition({ ...options, handler, bundleHash: bundle.hash });
    const key = JSON.stringify(wanted);
    const definition = definitions.get(key) ?? wanted;
    definitions.set(key, definition);
    return host.run(makeRequest(definition, options));
  };
  return {
    root,
    host,
    logs,
    start,
    logged,
    run: async (handler, options) => (await start(handler, options)).outcome,
    async startAndWait(handler, options = {}) {
      let begun: () => void = () => {};
      const began = new Promise<void>((resolve) => {
        begun = resolve;
      });
      const run = await start(handler, { ...options, onProgress: () => begun() });
      await began;
      return run;
    },
  };
}

/** Nothing is declared here. */
export const refuseChildren: PrepareChild = async (_, { type }) => ({
  problem: `no job of type "${type}" is declared`,
});

export function makeRequest(definition: JobDefinition, options: RunOptions = {}) {
  return {
    job: makeJob(definition.type, options),
    definition,
    timeoutMs: 60_000,
    alone: options.alone ?? false,
    onProgress: options.onProgress ?? (() => {}),
  };
}

let jobs = 0;

function makeJob(type: string, { payload = {}, failures = 0, schedule = null }: RunOptions): ClaimedJob {
  const number = ++jobs;
  return {
    id: `0199a000-0000-7000-8000-${String(number).padStart(12, "0")}` as JobId,
    token: BigInt(number) as DispatchToken,
    type,
    queue: "default",
    payload,
    definitionHash: "d",
    revision: 3,
    failures,
    execution: failures + 1,
    lost: 0,
    lostUnstarted: 0,
    returns: 0,
    maxAttempts: null,
    timeoutMs: null,
    schedule,
    recovered: false,
  };
}

export function makeDefinition(
  options: RunOptions & { readonly handler: string; readonly bundleHash: string | null },
): JobDefinition {
  return {
    type: options.type ?? options.handler.replace(/\.ts$/, "").replaceAll("/", "."),
    handler: options.handler,
    bundleHash: options.bundleHash,
    queue: "default",
    timeoutMs: 60_000,
    isolation: options.isolation ?? "thread",
    settings: options.settings ?? {},
    payloadSchema: null,
    retention: { succeededMs: 1, cancelledMs: 1, failedMs: 1 },
    policy: {
      immediateRetry: options.immediateRetry ?? { attempts: 0, initialMs: 1 },
      retry: { maxAttempts: 5, backoff: { type: "fixed", initialMs: 1, maxMs: 1, jitter: 0 } },
      timeoutMs: 60_000,
      maxLost: 3,
      maxLostUnstarted: 20,
      maxReturns: 20,
    },
  };
}

function recordLogs() {
  const logs: LogLine[] = [];
  const waiting = new Set<(line: LogLine) => void>();
  const write =
    (level: string) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}) => {
      const line = { level, message, fields };
      logs.push(line);
      for (const notify of waiting) notify(line);
    };
  const logger: Logger = {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: () => logger,
  };
  const logged = (message: string): Promise<LogLine> => {
    const known = logs.find((line) => line.message === message);
    if (known !== undefined) return Promise.resolve(known);
    return new Promise((resolve) => {
      const notify = (line: LogLine) => {
        if (line.message !== message) return;
        waiting.delete(notify);
        resolve(line);
      };
      waiting.add(notify);
    });
  };
  return { logger, logs, logged };
}
