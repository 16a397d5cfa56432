import { describeError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { storableJson, storableText } from "../../core/storable.ts";
import type { Handler } from "../../handler.ts";
import * as handlerModule from "../../handler.ts";
import { EnqueueError } from "./child-calls.ts";
import { type ContextHandle, createContext, SnoozeRequest } from "./handler-context.ts";
import { isTransient, toHandlerError } from "./handler-error.ts";
import { retryAtOnce } from "./immediate-retry.ts";
import type { FromRealm, RealmDefinition, RunMessage, ToRealm } from "./messages.ts";

/** Under this symbol bundles find what they import as "turno". */
export const HOST_MODULE_KEY = "turno.handler";
/** Lines of handlers that log without ever yielding go out at the latest when this many wait. */
const MAX_WAITING_MESSAGES = 64;

/** Where handlers run: one per thread, child process, or the main thread. */
export interface Realm {
  receive(batch: readonly ToRealm[]): void;
}

export interface RealmOptions {
  send(batch: readonly FromRealm[]): void;
  /** See RealmStart. */
  readonly lastBegun: Int32Array | null;
}

/** Makes this JavaScript realm one that loads bundles and runs handlers. */
export function createRealm({ send, lastBegun }: RealmOptions): Realm {
  (globalThis as Record<symbol, unknown>)[Symbol.for(HOST_MODULE_KEY)] = handlerModule;
  // Stacks name the handler's file and line instead of the bundle's.
  process.setSourceMapsEnabled(true);

  const definitions = new Map<number, RealmDefinition>();
  const handlers = new Map<string, Handler | Promise<Handler>>();
  const contexts = new Map<number, ContextHandle>();
  const outgoing = createOutgoing(send);

  const finish = (runId: number, handle: ContextHandle, message: FromRealm) => {
    handle.close();
    contexts.delete(runId);
    outgoing.push(message, false);
  };

  /** Before any code of the run's handler: a thread that dies or blocks tells which runs had begun. */
  const markBegun = (runId: number) => {
    if (lastBegun !== null && runId > (lastBegun[0] ?? 0)) Atomics.store(lastBegun, 0, runId);
  };

  const returned = (runId: number, handle: ContextHandle, value: unknown) => {
    const calls = handle.children();
    if (calls === null) return succeeded(runId, handle, value);
    // A refusal that the handler did not wait for is the attempt's failure: otherwise the job would be missing silently.
    void calls.settled().then((problem) => {
      if (problem === null) succeeded(runId, handle, value);
      else threw(runId, handle, new EnqueueError(problem));
    });
  };

  const succeeded = (runId: number, handle: ContextHandle, value: unknown) => {
    if (value instanceof SnoozeRequest) {
      return finish(runId, handle, ["done", runId, { kind: "snoozed", forMs: value.forMs }]);
    }
    const { text, error } = storableJson(value);
    const message: FromRealm =
      error === null
        ? ["returned", runId, text]
        : ["done", runId, { kind: "returned", result: null, resultError: error }];
    finish(runId, handle, message);
  };

  const threw = (runId: number, handle: ContextHandle, thrown: unknown) => {
    finish(runId, handle, ["done", runId, { kind: "threw", error: toHandlerError(thrown) }]);
  };

  const begin = (run: RunMessage, definition: RealmDefinition, handler: Handler, handle: ContextHandle) => {
    const runId = run[1];
    markBegun(runId);
    const call = () => handler(JSON.parse(run[4]) as Json, handle.context);
    const failed = (thrown: unknown) => {
      const { immediateRetry } = definition;
      if (immediateRetry.attempts === 0 || handle.isAborted() || !isTransient(thrown)) threw(runId, handle, thrown);
      else {
        const again = () => {
          handle.restart();
          return call();
        };
        retryAtOnce(again, thrown, immediateRetry, handle.signal()).then(
          (value) => returned(runId, handle, value),
          (last: unknown) => threw(runId, handle, last),
        );
      }
    };
    try {
      const value = call();
      if (isThenable(value)) Promise.resolve(value).then((result) => returned(runId, handle, result), failed);
      else returned(runId, handle, value);
    } catch (thrown) {
      failed(thrown);
    }
  };

  const start = (run: RunMessage) => {
    const [, runId, definitionId] = run;
    const definition = definitions.get(definitionId);
    if (definition === undefined)
      throw new Error(`run ${runId} refers to definition ${definitionId}, which was not sent`);
    const handle = createContext(run, definition, outgoing.push);
    contexts.set(runId, handle);
    const handler = handlers.get(definition.bundleHash) ?? loadHandler(definition, handlers);
    if (typeof handler === "function") return begin(run, definition, handler, handle);
    // Loading runs the module's own code, which may block or exit as a handler may.
    markBegun(runId);
    handler.then(
      (loaded) => begin(run, definition, loaded, handle),
      (error: unknown) =>
        finish(runId, handle, ["done", runId, { kind: "unloadable", detail: storableText(describeLoadError(error)) }]),
    );
  };

  return {
    receive(batch) {
      for (const message of batch) {
        if (message[0] === "run") start(message);
        else if (message[0] === "abort") contexts.get(message[1])?.abort(message[2]);
        else if (message[0] === "enqueued") contexts.get(message[1])?.children()?.answer(message[2], message[3]);
        else if (message[0] === "define") definitions.set(message[1].id, freezeDeep(message[1]));
        else definitions.clear();
      }
    },
  };
}

/** Collects what is said within one turn of the event loop into one message. */
function createOutgoing(send: (batch: readonly FromRealm[]) => void) {
  let waiting: FromRealm[] = [];
  const flush = () => {
    if (waiting.length === 0) return;
    const batch = waiting;
    waiting = [];
    send(batch);
  };
  return {
    push(message: FromRealm, urgent: boolean): void {
      waiting.push(message);
      if (urgent || (message[0] === "log" && waiting.length >= MAX_WAITING_MESSAGES)) flush();
      else if (waiting.length === 1) setImmediate(flush);
    },
  };
}

function loadHandler(definition: RealmDefinition, handlers: Map<string, Handler | Promise<Handler>>): Promise<Handler> {
  const loading = importHandler(definition.bundleUrl).then((handler) => {
    handlers.set(definition.bundleHash, handler);
    return handler;
  });
  handlers.set(definition.bundleHash, loading);
  return loading;
}

async function importHandler(url: string): Promise<Handler> {
  const module: { readonly default?: unknown } = await import(url);
  if (typeof module.default === "function") return module.default as Handler;
  throw new TypeError("expected a default export made by defineHandler, found none");
}

/** Null: the bundle loads in this realm. */
export async function whyUnloadable(url: string): Promise<string | null> {
  try {
    await importHandler(url);
    return null;
  } catch (error) {
    return storableText(describeLoadError(error));
  }
}

function describeLoadError(error: unknown): string {
  const { stack } = toHandlerError(error);
  return stack === null ? describeError(error) : stack.split("\n").slice(0, 6).join("\n");
}

/** Reading `then` may throw: a handler can return anything. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}

function freezeDeep<Value>(value: Value): Value {
  if (typeof value === "object" && value !== null) {
    Object.freeze(value);
    for (const member of Object.values(value)) freezeDeep(member);
  }
  return value;
}
