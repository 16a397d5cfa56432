import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { describeError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { storableJson, storableText } from "../../core/storable.ts";
import type {
  AbortReason,
  HandlerError,
  HandlerOutcome,
  HandlerRun,
  RunRequest,
} from "../../protocol/ports/handlers.ts";
import type { Clock } from "../../protocol/ports/surroundings.ts";
import {
  type CommandSettings,
  DEFAULT_OUTPUT_LIMIT,
  readCommandSettings,
  resolveEnvironment,
} from "./command-settings.ts";
import type { GroupGuard } from "./group-guard.ts";
import { LeaseDeadline } from "./lease-deadline.ts";
import { captureTail } from "./output-tail.ts";
import { childEnvironment, signalGroup } from "./process-group.ts";

/** The name by which job types ask for a command instead of a handler file. */
export const COMMAND_HANDLER = "builtin/command";
/** After SIGTERM, before SIGKILL. */
const DEFAULT_GRACE_MS = 10_000;
/** Processes left behind may keep the output open after the command's own end. */
const OUTPUT_GRACE_MS = 500;

export interface CommandRunner {
  run(request: RunRequest): HandlerRun;
  close(): Promise<void>;
}

export interface CommandRunnerOptions {
  readonly projectRoot: string;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly guard: Pick<GroupGuard, "guard" | "keepUntil" | "release">;
  readonly graceMs?: number;
}

/** Runs argument lists as process groups of their own, without a thread. The payload comes on standard input as JSON. */
export function createCommandRunner(options: CommandRunnerOptions): CommandRunner {
  const running = new Set<HandlerRun>();
  return {
    run(request) {
      const run = runCommand(request, options);
      running.add(run);
      run.outcome.finally(() => running.delete(run)).catch(() => {});
      return run;
    },
    async close() {
      const ending = [...running];
      for (const run of ending) run.end();
      await Promise.all(ending.map((run) => run.outcome));
    },
  };
}

function runCommand({ job, definition, keepUntilMs }: RunRequest, options: CommandRunnerOptions): HandlerRun {
  const settings = readCommandSettings(definition.settings);
  if (settings === null) {
    const message = "expected settings such as { command: [program, argument] }; turno validate says what is wrong";
    return settledRun({ kind: "threw", error: commandError(message, { permanent: true }) });
  }
  const environment = resolveEnvironment(settings.env ?? {});
  if ("missing" in environment) {
    const message = `the command's environment refers to ${environment.missing}, which this worker does not have`;
    return settledRun({ kind: "threw", error: commandError(message, { permanent: true }) });
  }
  const [program = "", ...parameters] = settings.command;
  const cwd = resolve(options.projectRoot, settings.cwd ?? ".");
  const startedMs = options.clock.monotonicMs();
  let child: ChildProcess;
  try {
    child = spawn(program, parameters, {
      cwd,
      env: childEnvironment({
        ...environment.values,
        TURNO_JOB_ID: job.id,
        TURNO_EXECUTION: String(job.execution),
        TURNO_FENCE: String(job.token),
        TURNO_IDEMPOTENCY_KEY: `turno-${job.id}`,
      }),
      detached: true,
      shell: false,
      windowsHide: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
  } catch (error) {
    return settledRun({ kind: "threw", error: spawnError(program, cwd, error) });
  }
  const deadline = new LeaseDeadline(options.clock);
  options.guard.guard(child.pid);
  options.guard.keepUntil(child.pid, deadline.set(keepUntilMs));
  const limit = settings.outputLimit ?? DEFAULT_OUTPUT_LIMIT;
  const stdout = captureTail(child.stdout, limit);
  const stderr = captureTail(child.stderr, limit);
  child.stdin?.on("error", () => {}).end(JSON.stringify(job.payload));

  let abortedBy: AbortReason | null = null;
  let ended = false;
  let timer: NodeJS.Timeout | null = null;
  const outcome = new Promise<HandlerOutcome>((settle) => {
    child.once("error", (error) => {
      // Errors after the start (a signal that could not be sent) leave the process to its exit.
      if (child.pid === undefined) settle({ kind: "threw", error: spawnError(program, cwd, error) });
    });
    child.once("exit", (code, signal) => {
      if (timer !== null) clearTimeout(timer);
      const outlived = deadline.explains(signal);
      if (abortedBy !== null || ended) signalGroup(child.pid, "SIGKILL");
      options.guard.release(child.pid);
      void closed(child, OUTPUT_GRACE_MS).then(() => {
        const captured = { stdout: stdout.text(environment.secrets), stderr: stderr.text(environment.secrets) };
        const durationMs = Math.round(options.clock.monotonicMs() - startedMs);
        settle(
          ended || outlived
            ? { kind: "cut-off" }
            : interpretExit({
                program,
                code,
                signal,
                abortedBy,
                settings,
                captured,
                durationMs,
                dropped: stdout.dropped(),
              }),
        );
      });
    });
  });
  return {
    outcome,
    abort(reason) {
      if (abortedBy !== null || child.exitCode !== null || child.signalCode !== null) return;
      abortedBy = reason;
      signalGroup(child.pid, "SIGTERM");
      timer = setTimeout(() => signalGroup(child.pid, "SIGKILL"), options.graceMs ?? DEFAULT_GRACE_MS);
    },
    end() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      ended = true;
      signalGroup(child.pid, "SIGKILL");
    },
    keepUntil(monotonicMs) {
      if (child.exitCode !== null || child.signalCode !== null) return;
      options.guard.keepUntil(child.pid, deadline.set(monotonicMs));
    },
  };
}

interface Exit {
  readonly program: string;
  readonly code: number | null;
  readonly signal: string | null;
  readonly abortedBy: AbortReason | null;
  readonly settings: CommandSettings;
  readonly captured: { readonly stdout: string; readonly stderr: string };
  readonly durationMs: number;
  readonly dropped: number;
}

function interpretExit({
  program,
  code,
  signal,
  abortedBy,
  settings,
  captured,
  durationMs,
  dropped,
}: Exit): HandlerOutcome {
  if (code === 0) {
    const { text, error } = storableJson({
      exitCode: 0,
      durationMs,
      stdout: captured.stdout,
      stdoutDropped: dropped,
      stderr: captured.stderr,
    } satisfies Json);
    return { kind: "returned", result: text, resultError: error };
  }
  const how = signal === null ? `exit code ${code}` : signal;
  const why = abortedBy === null ? "" : ` after it was asked to stop (${abortedBy})`;
  const lastLine = captured.stderr.trimEnd().split("\n").at(-1) ?? "";
  const message = `${program} ended with ${how}${why}${lastLine === "" ? "" : `: ${lastLine}`}`;
  const { retry, permanent } = settings.exitCodes ?? {};
  const isPermanent =
    code !== null && abortedBy === null && (permanent?.includes(code) === true || retry?.includes(code) === false);
  return { kind: "threw", error: commandError(message, { permanent: isPermanent, stderr: captured.stderr }) };
}

/** A program that is not there or not executable stays so; a machine without memory or processes does not. */
function spawnError(program: string, cwd: string, error: unknown): HandlerError {
  const code = (error as NodeJS.ErrnoException).code;
  const permanent = code === "ENOENT" || code === "EACCES" || code === "ENOTDIR" || code === "ERR_INVALID_ARG_VALUE";
  // The system blames the program for a folder that is not there.
  const why = existsSync(cwd) ? describeError(error) : `its working folder ${cwd} is not there`;
  return commandError(`${program} could not be started: ${why}`, { permanent });
}

function commandError(
  message: string,
  { permanent, stderr = "" }: { readonly permanent: boolean; readonly stderr?: string },
): HandlerError {
  const tail = stderr.trimEnd().slice(-8_000);
  return {
    name: "CommandError",
    message: storableText(message),
    stack: tail === "" ? null : storableText(tail, 16 * 1024),
    permanent,
    retryAfterMs: null,
  };
}

function closed(child: ChildProcess, graceMs: number): Promise<void> {
  return new Promise((resolveClosed) => {
    const timer = setTimeout(() => {
      child.stdout?.destroy();
      child.stderr?.destroy();
      resolveClosed();
    }, graceMs);
    child.once("close", () => {
      clearTimeout(timer);
      resolveClosed();
    });
  });
}

function settledRun(outcome: HandlerOutcome): HandlerRun {
  return { outcome: Promise.resolve(outcome), abort: () => {}, end: () => {} };
}
