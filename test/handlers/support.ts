import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import { bundleHandlers } from "../../runtime/adapters/handlers/bundle.ts";
import { createHandlerHost, type HandlerHostOptions } from "../../runtime/adapters/handlers/host.ts";
import type { JobDefinition } from "../../runtime/config/objects.ts";
import type { Logger } from "../../runtime/core/logger.ts";
import type { HandlerHost, HandlerOutcome, HandlerRun } from "../../runtime/protocol/ports/handlers.ts";
import type { PrepareChild } from "../../runtime/protocol/ports/intake.ts";
import { makeDefinition, makeRequest, type RunOptions } from "../support/handlers/requests.ts";

export { makeDefinition, makeRequest, type RunOptions } from "../support/handlers/requests.ts";

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
