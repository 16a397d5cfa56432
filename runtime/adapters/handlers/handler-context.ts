import { storableJson, storableText } from "../../core/storable.ts";
import type { HandlerContext, HandlerLog } from "../../handler.ts";
import type { AbortReason } from "../../protocol/ports/handlers.ts";
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

/** Builds the context of one run; what handlers rarely ask for (signal, dates, logger) is made on first use. */
export function createContext(
  run: RunMessage,
  definition: RealmDefinition,
  send: (message: FromRealm, urgent: boolean) => void,
): ContextHandle {
  const [, runId, , jobId, , attempt, execution, fence, deadlineMs, schedule, revision] = run;
  let controller: AbortController | null = null;
  let reason: AbortReason | null = null;
  let log: HandlerLog | null = null;
  let progress: Progress | null = null;
  let closed = false;

  const signal = (): AbortSignal => {
    if (controller === null) {
      controller = new AbortController();
      if (reason !== null) controller.abort(new JobAbortedError(reason));
    }
    return controller.signal;
  };
  const context: HandlerContext = {
    jobId,
    type: definition.type,
    attempt,
    execution,
    settings: definition.settings,
    fence,
    idempotencyKey: `turno-${jobId}`,
    revision,
    get signal() {
      return signal();
    },
    get deadline() {
      return new Date(deadlineMs);
    },
    get schedule() {
      if (schedule === null) return null;
      return { name: schedule.name, firedFor: new Date(schedule.firedForMs), lateBy: schedule.lateByMs };
    },
    get log() {
      return (log ??= createLog(jobId, definition.type, send));
    },
    progress(percent, message) {
      if (closed) return DONE;
      progress ??= createProgress((sent, text) => send(["progress", runId, sent, text], true));
      progress.report(percent, message);
      return DONE;
    },
  };
  return {
    context,
    abort(why) {
      reason ??= why;
      controller?.abort(new JobAbortedError(reason));
    },
    isAborted: () => reason !== null,
    signal,
    close() {
      closed = true;
      progress?.flush();
    },
  };
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
