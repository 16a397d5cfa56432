import { storableJson, storableText } from "../../core/storable.ts";
import type { EnqueueOptions, HandlerContext, HandlerLog, Snooze } from "../../handler.ts";
import type { AbortReason } from "../../protocol/ports/handlers.ts";
import { ChildCalls } from "./child-calls.ts";
import { readSnooze } from "./enqueue-request.ts";
import type { FromRealm, LogLevel, RealmDefinition, RunMessage } from "./messages.ts";

/** Progress goes out at most this often; the last value always does. */
const PROGRESS_INTERVAL_MS = 1_000;
const MAX_LOG_BYTES = 16 * 1024;
const DONE = Promise.resolve();

/** The context a handler gets, and the realm's handles on it. */
export interface ContextHandle {
  readonly context: HandlerContext;
  /** Aborts the signal; before the handler has asked for it, it is born aborted. */
  abort(reason: AbortReason): void;
  isAborted(): boolean;
  signal(): AbortSignal;
  /** Null: nothing was enqueued. */
  children(): ChildCalls | null;
  /** The handler is to be called once more in the same attempt. */
  restart(): void;
  /** Sends what throttling still holds back and lets nothing through afterwards. */
  close(): void;
}

/** Reason of an aborted `ctx.signal`; its `code` is one of the AbortReasons. */
export class JobAbortedError extends Error {
  override readonly name = "AbortError";
  readonly code: AbortReason;
  constructor(reason: AbortReason) {
    super(`the job was asked to stop: ${reason}`);
    this.code = reason;
  }
}

/** What `ctx.snooze` gives; known by its class, so that a result of the same shape stays a result. */
export class SnoozeRequest implements Snooze {
  readonly turnoOutcome = "snooze";
  readonly forMs: number;
  constructor(forMs: number) {
    this.forMs = forMs;
  }
}

/** Builds the context of one run; what handlers rarely ask for (signal, dates, logger) is made on first use. */
export function createContext(
  run: RunMessage,
  definition: RealmDefinition,
  send: (message: FromRealm, urgent: boolean) => void,
): ContextHandle {
  return new Handle(run, definition, send);
}

/** One a run, thousands a second: classes with getters on their prototypes cost a fraction of an object of closures. */
class Handle implements ContextHandle {
  readonly run: RunMessage;
  readonly definition: RealmDefinition;
  readonly context: HandlerContext;
  readonly #send: (message: FromRealm, urgent: boolean) => void;
  #controller: AbortController | null = null;
  #reason: AbortReason | null = null;
  #log: HandlerLog | null = null;
  #progress: Progress | null = null;
  #children: ChildCalls | null = null;
  #closed = false;

  constructor(run: RunMessage, definition: RealmDefinition, send: (message: FromRealm, urgent: boolean) => void) {
    this.run = run;
    this.definition = definition;
    this.#send = send;
    this.context = new Context(this);
  }

  abort(why: AbortReason): void {
    this.#reason ??= why;
    this.#controller?.abort(new JobAbortedError(this.#reason));
  }

  isAborted(): boolean {
    return this.#reason !== null;
  }

  signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#reason !== null) this.#controller.abort(new JobAbortedError(this.#reason));
    }
    return this.#controller.signal;
  }

  log(): HandlerLog {
    return (this.#log ??= createLog(this.run[3], this.definition.type, this.#send));
  }

  report(percent: number, message: string | undefined): Promise<void> {
    if (this.#closed) return DONE;
    this.#progress ??= createProgress((sent, text) => this.#send(["progress", this.run[1], sent, text], true));
    this.#progress.report(percent, message);
    return DONE;
  }

  enqueue(type: string, payload: unknown, options: EnqueueOptions): Promise<{ readonly id: string }> {
    this.#children ??= new ChildCalls((call, request) => this.#send(["enqueue", this.run[1], call, request], false));
    if (this.#closed) this.#children.close();
    return this.#children.enqueue(type, payload, options);
  }

  children(): ChildCalls | null {
    return this.#children;
  }

  restart(): void {
    if (this.#children === null) return;
    this.#children.forget();
    this.#send(["restarted", this.run[1]], false);
  }

  close(): void {
    this.#closed = true;
    this.#children?.close();
    this.#progress?.flush();
  }
}

class Context implements HandlerContext {
  readonly jobId: string;
  readonly type: string;
  readonly attempt: number;
  readonly execution: number;
  readonly settings: HandlerContext["settings"];
  readonly fence: bigint;
  readonly idempotencyKey: string;
  readonly revision: number | null;
  /** Works when it is taken out of the context. */
  readonly progress: HandlerContext["progress"];
  readonly snooze = snooze;
  readonly #handle: Handle;

  constructor(handle: Handle) {
    const { run, definition } = handle;
    this.#handle = handle;
    this.jobId = run[3];
    this.type = definition.type;
    this.attempt = run[5];
    this.execution = run[6];
    this.settings = definition.settings;
    this.fence = run[7];
    this.idempotencyKey = `turno-${run[3]}`;
    this.revision = run[10];
    this.progress = (percent, message) => handle.report(percent, message);
  }

  get signal(): AbortSignal {
    return this.#handle.signal();
  }

  get deadline(): Date {
    return new Date(this.#handle.run[8]);
  }

  get schedule(): HandlerContext["schedule"] {
    const schedule = this.#handle.run[9];
    if (schedule === null) return null;
    return { name: schedule.name, firedFor: new Date(schedule.firedForMs), lateBy: schedule.lateByMs };
  }

  get log(): HandlerLog {
    return this.#handle.log();
  }

  get enqueue(): HandlerContext["enqueue"] {
    const handle = this.#handle;
    return (type, payload, options = {}) => handle.enqueue(type, payload, options);
  }
}

function snooze(duration: number | string): Snooze {
  return new SnoozeRequest(readSnooze(duration));
}

interface Progress {
  report(percent: number, message: string | undefined): void;
  flush(): void;
}

function createProgress(send: (percent: number, message: string | null) => void): Progress {
  let pending: readonly [number, string | null] | null = null;
  let timer: NodeJS.Timeout | null = null;
  const flush = () => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    if (pending !== null) send(...pending);
    pending = null;
  };
  let sentAt = Number.NEGATIVE_INFINITY;
  return {
    report(percent, message) {
      if (!Number.isFinite(percent)) return;
      pending = [
        Math.min(100, Math.max(0, percent)),
        message === undefined ? null : storableText(String(message), 1000),
      ];
      const waitMs = sentAt + PROGRESS_INTERVAL_MS - performance.now();
      if (waitMs <= 0) {
        sentAt = performance.now();
        flush();
      } else if (timer === null) {
        timer = setTimeout(() => {
          sentAt = performance.now();
          flush();
        }, waitMs);
        timer.unref();
      }
    },
    flush,
  };
}

function createLog(jobId: string, type: string, send: (message: FromRealm, urgent: boolean) => void): HandlerLog {
  const write = (level: LogLevel) => (message: string, fields?: Readonly<Record<string, unknown>>) => {
    const json = fields === undefined ? null : storableJson(fields, MAX_LOG_BYTES);
    const text = json === null ? null : (json.text ?? JSON.stringify({ fields: json.error }));
    send(["log", jobId, type, level, storableText(String(message), MAX_LOG_BYTES), text], false);
  };
  return { info: write("info"), warn: write("warn"), error: write("error") };
}
