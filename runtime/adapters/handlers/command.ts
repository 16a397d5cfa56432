import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import { describeError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { storableJson, storableText } from "../../core/storable.ts";
import type {
  AbortReason,
  HandlerError,
  HandlerOutcome,
  HandlerRun,
  RunRequest,
} from "../../protocol/ports/handlers.ts";
import type { Clock } from "../../protocol/ports/surroundings.ts";
import { childEnvironment, signalGroup } from "./process-group.ts";

/** The name by which job types ask for a command instead of a handler file. */
export const COMMAND_HANDLER = "builtin/command";
const DEFAULT_OUTPUT_LIMIT = 64 * 1024;
/** After SIGTERM, before SIGKILL. */
const DEFAULT_GRACE_MS = 10_000;
/** Processes left behind may keep the output open after the command's own end. */
const OUTPUT_GRACE_MS = 500;
const ENV_REFERENCE = /^\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}$/;
/** Shorter values would blot out ordinary output. */
const MIN_MASKED_LENGTH = 6;

/** JSON Schema (2020-12) of `spec.settings` of a job type with `handler: builtin/command`. */
export const COMMAND_SETTINGS_SCHEMA: JsonObject = {
  type: "object",
  required: ["command"],
  additionalProperties: false,
  properties: {
    command: {
      type: "array",
      minItems: 1,
      maxItems: 1000,
      items: { type: "string", pattern: "^[^\\u0000]*$" },
      description: "Program and arguments, handed over as they are: no shell reads them.",
    },
    cwd: { type: "string", minLength: 1, description: "Working folder, relative to the project's root (the default)." },
    env: {
      type: "object",
      propertyNames: { pattern: "^[A-Za-z_][A-Za-z0-9_]*$" },
      additionalProperties: { type: "string" },
      description:
        "Environment beside PATH, HOME, LANG, TZ and TMPDIR; a value that is a reference to the environment (env:NAME in a dollar brace) takes the worker's own.",
    },
    exitCodes: {
      type: "object",
      additionalProperties: false,
      properties: {
        retry: {
          type: "array",
          items: { type: "integer", minimum: 1, maximum: 255 },
          description: "Codes worth another attempt. When given, every code in neither list is permanent.",
        },
        permanent: {
          type: "array",
          items: { type: "integer", minimum: 1, maximum: 255 },
          description: "Codes that no retry can mend.",
        },
      },
    },
    outputLimit: {
      type: "integer",
      minimum: 0,
      maximum: 131072,
      default: DEFAULT_OUTPUT_LIMIT,
      description: "Bytes kept of the end of standard output, and of standard error.",
    },
  },
};

export interface CommandSettings {
  readonly command: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly exitCodes?: { readonly retry?: readonly number[]; readonly permanent?: readonly number[] };
  readonly outputLimit?: number;
}

export interface CommandRunner {
  run(request: RunRequest): HandlerRun;
  close(): Promise<void>;
}

export interface CommandRunnerOptions {
  readonly projectRoot: string;
  readonly clock: Pick<Clock, "monotonicMs">;
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

function runCommand({ job, definition }: RunRequest, options: CommandRunnerOptions): HandlerRun {
  const settings = readSettings(definition.settings);
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
  const startedMs = options.clock.monotonicMs();
  let child: ChildProcess;
  try {
    child = spawn(program, parameters, {
      cwd: resolve(options.projectRoot, settings.cwd ?? "."),
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
    return settledRun({ kind: "threw", error: spawnError(program, error) });
  }
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
      if (child.pid === undefined) settle({ kind: "threw", error: spawnError(program, error) });
    });
    child.once("exit", (code, signal) => {
      if (timer !== null) clearTimeout(timer);
      if (abortedBy !== null || ended) signalGroup(child.pid, "SIGKILL");
      void closed(child, OUTPUT_GRACE_MS).then(() => {
        const captured = { stdout: stdout.text(environment.secrets), stderr: stderr.text(environment.secrets) };
        const durationMs = Math.round(options.clock.monotonicMs() - startedMs);
        settle(
          ended
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
  };
}

/** What the schema promises and this code relies on; definitions of before the schema may hold anything. */
function readSettings(settings: JsonObject): CommandSettings | null {
  const { command, cwd, env = {}, outputLimit } = settings;
  const isText = (value: unknown) => typeof value === "string";
  const valid =
    Array.isArray(command) &&
    command.length > 0 &&
    command.every(isText) &&
    (cwd === undefined || isText(cwd)) &&
    typeof env === "object" &&
    env !== null &&
    Object.values(env).every(isText) &&
    (outputLimit === undefined || typeof outputLimit === "number");
  return valid ? (settings as unknown as CommandSettings) : null;
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
function spawnError(program: string, error: unknown): HandlerError {
  const code = (error as NodeJS.ErrnoException).code;
  const permanent = code === "ENOENT" || code === "EACCES" || code === "ENOTDIR" || code === "ERR_INVALID_ARG_VALUE";
  return commandError(`${program} could not be started: ${describeError(error)}`, { permanent });
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

type ResolvedEnvironment =
  | { readonly values: Readonly<Record<string, string>>; readonly secrets: readonly string[] }
  | { readonly missing: string };

function resolveEnvironment(declared: Readonly<Record<string, string>>): ResolvedEnvironment {
  const values: Record<string, string> = {};
  const secrets: string[] = [];
  for (const [name, text] of Object.entries(declared)) {
    const reference = ENV_REFERENCE.exec(text)?.[1];
    const value = reference === undefined ? text : process.env[reference];
    if (value === undefined) return { missing: `\${env:${reference}}` };
    if (reference !== undefined && value.length >= MIN_MASKED_LENGTH) secrets.push(value);
    values[name] = value;
  }
  return { values, secrets };
}

interface Tail {
  text(secrets: readonly string[]): string;
  dropped(): number;
}

/** Keeps the end of a stream, at most `limit` bytes, whatever its length. */
function captureTail(stream: NodeJS.ReadableStream | null, limit: number): Tail {
  const chunks: Buffer[] = [];
  let kept = 0;
  let total = 0;
  stream?.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    kept += chunk.length;
    total += chunk.length;
    for (let first = chunks[0]; first !== undefined && kept - first.length >= limit; first = chunks[0]) {
      chunks.shift();
      kept -= first.length;
    }
  });
  stream?.on("error", () => {});
  return {
    text(secrets) {
      const bytes = Buffer.concat(chunks);
      let text = storableText(bytes.subarray(Math.max(0, bytes.length - limit)).toString("utf8"), limit * 3 + 16);
      for (const secret of secrets) text = text.replaceAll(secret, "***");
      return text;
    },
    dropped: () => Math.max(0, total - limit),
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
