import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { formatDuration, parseDuration } from "../../core/duration.ts";
import { TurnoError } from "../../core/errors.ts";
import type { ApiClient } from "../api-client.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { formatTable, shortInstant } from "../table.ts";

/** How a command reaches the API: the server named by --server, or the database of the project in --dir. */
export type OpenClient = (options: ClientOptions) => Promise<ApiClient>;

export interface ClientOptions {
  readonly dir?: string;
  readonly server?: string;
  readonly json?: boolean;
}

export interface JobBody {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly state: string;
  readonly hold: string | null;
  readonly result: unknown;
  readonly error: string | null;
  readonly progress: number;
  readonly progressMessage: string | null;
  readonly attempt: number;
  readonly maxAttempts: number | null;
  readonly execution: number;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly worker: string | null;
  readonly schedule: string | null;
  readonly source: {
    readonly revision: number;
    readonly file: string;
    readonly line: number;
    readonly commit: string | null;
    readonly author: string | null;
  } | null;
  readonly attempts?: readonly {
    readonly execution: number;
    readonly worker: string;
    readonly outcome: string;
    readonly durationMs: number | null;
    readonly error: string | null;
  }[];
  readonly timeline?: readonly {
    readonly at: string;
    readonly from: string | null;
    readonly to: string;
    readonly reason: string | null;
  }[];
}

/** Options that every command has that talks to the API. */
export function withClientOptions(command: Command): Command {
  return command
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--server <url>", "talk to this Turno server instead of the project's database (TURNO_API_KEY)")
    .option("--json", "print JSON");
}

const POLL_MS = 200;
const RESULT_SHOWN = 400;

export function addJobCommands(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  openClient: OpenClient,
): void {
  withClientOptions(program.command("enqueue <type>").description("create a job"))
    .option("--payload <json>", "the payload as JSON, or @FILE")
    .option("--queue <name>", "another queue than the job type's")
    .option("--priority <n>", "-100 to 100; larger is sooner")
    .option("--at <instant>", "not before this instant (RFC 3339)")
    .option("--delay <duration>", "not before this time has passed, such as 10m")
    .option("--max-attempts <n>", "instead of the policy's")
    .option("--timeout <duration>", "instead of the job type's")
    .option("--wait", "wait for the end; exit 1 when the job does not succeed")
    .action(async (type: string, options: EnqueueOptions) => {
      await using client = closing(await openClient(options));
      const job = await client.post<JobBody>("/api/jobs", await enqueueBody({ io, type, options }));
      if (options.wait !== true) return show(io, options, job, `${job.id}  ${job.state} in ${job.queue}\n`);
      if (options.json !== true) io.err(`${job.id}  waiting for ${type}\n`);
      const finished = await waitForEnd({ client, io, id: job.id });
      show(io, options, finished, jobText(finished));
      if (finished.state !== "Succeeded") setExitCode(EXIT.failed);
    });

  withClientOptions(program.command("jobs").description("list jobs, newest first"))
    .option("--state <state>", "Scheduled, Enqueued, Processing, Succeeded, Failed or Cancelled")
    .option("--type <type>", "jobs of this type")
    .option("--queue <queue>", "jobs of this queue")
    .option("--schedule <name>", "jobs of this schedule")
    .option("--search <text>", "part of the type, or the beginning of an id")
    .option("--limit <n>", "at most this many", "20")
    .option("--cursor <cursor>", "the page after")
    .action(async (options: ClientOptions & Readonly<Record<string, string | undefined>>) => {
      await using client = closing(await openClient(options));
      const query = new URLSearchParams();
      for (const name of ["state", "type", "queue", "schedule", "search", "limit", "cursor"]) {
        const value = options[name];
        if (value !== undefined) query.set(name, value);
      }
      const page = await client.get<{ items: readonly JobBody[]; nextCursor: string | null }>(`/api/jobs?${query}`);
      const text = formatTable({
        headings: ["ID", "TYPE", "QUEUE", "STATE", "ATTEMPT", "CREATED", "SOURCE"],
        rows: page.items.map((job) => [
          job.id,
          job.type,
          job.queue,
          stateText(job),
          `${job.attempt}/${job.maxAttempts ?? "-"}`,
          shortInstant(job.createdAt),
          sourceText(job),
        ]),
        empty: "no jobs",
      });
      show(io, options, page, page.nextCursor === null ? text : `${text}more: --cursor ${page.nextCursor}\n`);
    });

  withClientOptions(program.command("job <id>").description("show one job with its attempts and timeline")).action(
    async (id: string, options: ClientOptions) => {
      await using client = closing(await openClient(options));
      const job = await client.get<JobBody>(`/api/jobs/${encodeURIComponent(id)}`);
      show(io, options, job, jobText(job));
    },
  );

  for (const [action, done, description] of [
    ["cancel", "cancelled", "cancel a job; a running one is asked to stop"],
    ["requeue", "requeued", "put a finished job back into its queue"],
  ] as const) {
    withClientOptions(program.command(`${action} <id>`).description(description)).action(
      async (id: string, options: ClientOptions) => {
        await using client = closing(await openClient(options));
        const answer = await client.post<{ cancelRequested?: boolean } | null>(
          `/api/jobs/${encodeURIComponent(id)}/${action}`,
        );
        show(
          io,
          options,
          answer,
          `${id}  ${answer?.cancelRequested === true && action === "cancel" ? "cancel requested" : done}\n`,
        );
      },
    );
  }
}

interface EnqueueOptions extends ClientOptions {
  readonly payload?: string;
  readonly queue?: string;
  readonly priority?: string;
  readonly at?: string;
  readonly delay?: string;
  readonly maxAttempts?: string;
  readonly timeout?: string;
  readonly wait?: boolean;
}

async function enqueueBody(request: {
  readonly io: CommandIo;
  readonly type: string;
  readonly options: EnqueueOptions;
}): Promise<unknown> {
  const { io, type, options } = request;
  return {
    type,
    payload: options.payload === undefined ? {} : await readPayload(io, options.payload),
    ...(options.queue === undefined ? {} : { queue: options.queue }),
    ...(options.priority === undefined ? {} : { priority: wholeNumber("--priority", options.priority) }),
    ...(options.at === undefined ? {} : { runAt: options.at }),
    ...(options.delay === undefined ? {} : { delay: formatDuration(parseDuration(options.delay)) }),
    ...(options.maxAttempts === undefined ? {} : { maxAttempts: wholeNumber("--max-attempts", options.maxAttempts) }),
    ...(options.timeout === undefined ? {} : { timeout: formatDuration(parseDuration(options.timeout)) }),
  };
}

async function readPayload(io: CommandIo, text: string): Promise<unknown> {
  const from = text.startsWith("@") ? text.slice(1) : "--payload";
  const json = text.startsWith("@") ? await readFile(resolve(io.cwd, from), "utf8") : text;
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new TurnoError("TURNO_USAGE", `expected JSON in ${from}: ${(error as Error).message}`);
  }
}

function wholeNumber(option: string, text: string): number {
  if (!/^-?\d{1,9}$/.test(text))
    throw new TurnoError("TURNO_USAGE", `expected a whole number after ${option}, found "${text}"`);
  return Number(text);
}

async function waitForEnd(wait: {
  readonly client: ApiClient;
  readonly io: CommandIo;
  readonly id: string;
}): Promise<JobBody> {
  for (;;) {
    const job = await wait.client.get<JobBody>(`/api/jobs/${wait.id}`);
    if (["Succeeded", "Failed", "Cancelled"].includes(job.state)) return job;
    await pause(POLL_MS, wait.io.signal);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  return new Promise((resolvePause, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      reject(new TurnoError("TURNO_USAGE", "stopped waiting; the job goes on"));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", onAbort);
      resolvePause();
    }, ms);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

export function show(io: CommandIo, options: ClientOptions, json: unknown, text: string): void {
  if (options.json === true) printJson(io, json);
  else io.out(text);
}

/** The client as a resource: closed at the end of its block, whatever happens in it. */
export function closing(client: ApiClient): ApiClient & AsyncDisposable {
  return { ...client, [Symbol.asyncDispose]: () => client.close() };
}

/** A result is shown whole with --json. */
function shorten(text: string): string {
  return text.length <= RESULT_SHOWN
    ? text
    : `${text.slice(0, RESULT_SHOWN)}… (${text.length} characters; all with --json)`;
}

function stateText(job: JobBody): string {
  return job.hold === null ? job.state : `${job.state} (${job.hold})`;
}

function sourceText(job: JobBody): string {
  return job.source === null ? "-" : `${job.source.file}:${job.source.line}`;
}

function jobText(job: JobBody): string {
  const facts: (readonly [string, string | null])[] = [
    ["id", job.id],
    ["type", job.type],
    ["queue", job.queue],
    ["state", stateText(job)],
    ["attempt", `${job.attempt} of ${job.maxAttempts ?? "-"} (execution ${job.execution})`],
    [
      "progress",
      job.state === "Processing"
        ? `${job.progress} %${job.progressMessage === null ? "" : ` ${job.progressMessage}`}`
        : null,
    ],
    ["worker", job.worker],
    ["schedule", job.schedule],
    ["created", shortInstant(job.createdAt)],
    ["started", job.startedAt === null ? null : shortInstant(job.startedAt)],
    ["finished", job.finishedAt === null ? null : shortInstant(job.finishedAt)],
    [
      "source",
      job.source === null
        ? null
        : `${sourceText(job)}, revision ${job.source.revision}${job.source.commit === null ? "" : `, commit ${job.source.commit.slice(0, 12)} by ${job.source.author ?? "?"}`}`,
    ],
    ["result", job.result === null || job.result === undefined ? null : shorten(JSON.stringify(job.result))],
    ["error", job.error],
  ];
  const lines = facts.flatMap(([name, value]) => (value === null ? [] : [`${name.padEnd(10)}${value}\n`]));
  const attempts = (job.attempts ?? []).map(
    (attempt) =>
      `  ${attempt.execution}  ${attempt.outcome.padEnd(10)} ${attempt.durationMs ?? "-"} ms  ${attempt.worker}${attempt.error === null ? "" : `  ${attempt.error}`}\n`,
  );
  const timeline = (job.timeline ?? []).map(
    (entry) =>
      `  ${shortInstant(entry.at)}  ${entry.from ?? "(new)"} → ${entry.to}${entry.reason === null ? "" : `  ${entry.reason}`}\n`,
  );
  return [
    ...lines,
    ...(attempts.length === 0 ? [] : ["attempts\n", ...attempts]),
    ...(timeline.length === 0 ? [] : ["timeline\n", ...timeline]),
  ].join("");
}
