import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { formatDuration, parseDuration } from "../../core/duration.ts";
import { describeError, TurnoError } from "../../core/errors.ts";
import { ApiAwayError, type ApiClient } from "../api-client.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { type JobBody, jobText, sourceText, stateText } from "../job-text.ts";
import { formatTable, shortInstant } from "../table.ts";
import { usage } from "../usage.ts";

/** How a command reaches the API: the server named by --server, or the database of the project in --dir. */
export type OpenClient = (options: ClientOptions) => Promise<ApiClient>;

export interface ClientOptions {
  readonly dir?: string;
  readonly server?: string;
  readonly json?: boolean;
}

/** Options that every command has that talks to the API. */
export function withClientOptions(command: Command): Command {
  return command
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--server <url>", "talk to this Turno server instead of the project's database (TURNO_API_KEY)")
    .option("--json", "print JSON");
}

const POLL_MS = 200;
/** A server or database that is away for this long, while a job is waited for, ends the command. */
const AWAY_LIMIT_MS = 300_000;
const AWAY_POLL_MS = 1_000;

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
    .option("--concurrency-key <key>", "jobs with the same key never run at once; instead of the job type's")
    .option("--idempotency-key <key>", "create it once, however often the command is given with this key within a day")
    .option("--wait", "wait for the end; exit 1 when the job does not succeed")
    .action(async (type: string, options: EnqueueOptions) => {
      const body = await enqueueBody({ io, type, options });
      await using client = closing(await openClient(options));
      const key = options.idempotencyKey;
      const headers = key === undefined ? {} : { "idempotency-key": key };
      const job = await client.post<JobBody & { readonly duplicate?: true }>("/api/jobs", body, headers);
      const note = job.duplicate === true ? " (it was there before: its job type is unique)" : "";
      if (options.wait !== true) return show(io, options, job, `${job.id}  ${job.state} in ${job.queue}${note}\n`);
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
    .option("--limit <n>", "at most this many, 1 to 200", "20")
    .option("--cursor <cursor>", "the page after the one that gave this cursor")
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
  readonly concurrencyKey?: string;
  readonly idempotencyKey?: string;
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
    ...(options.delay === undefined ? {} : { delay: duration("--delay", options.delay) }),
    ...(options.maxAttempts === undefined ? {} : { maxAttempts: wholeNumber("--max-attempts", options.maxAttempts) }),
    ...(options.concurrencyKey === undefined ? {} : { concurrencyKey: options.concurrencyKey }),
    ...(options.timeout === undefined ? {} : { timeout: duration("--timeout", options.timeout) }),
  };
}

function duration(option: string, text: string): string {
  return usage(option, () => formatDuration(parseDuration(text)));
}

async function readPayload(io: CommandIo, text: string): Promise<unknown> {
  const from = text.startsWith("@") ? text.slice(1) : "--payload";
  const json = text.startsWith("@") ? await readFile(resolve(io.cwd, from), "utf8").catch(unreadable) : text;
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new TurnoError("TURNO_USAGE", `expected JSON in ${from}: ${(error as Error).message}`);
  }
}

function unreadable(error: unknown): never {
  throw new TurnoError("TURNO_USAGE", `the file of --payload could not be read: ${describeError(error)}`);
}

function wholeNumber(option: string, text: string): number {
  if (!/^-?\d{1,9}$/.test(text))
    throw new TurnoError("TURNO_USAGE", `expected a whole number after ${option}, found "${text}"`);
  return Number(text);
}

/** Looks until the job has ended; an outage meanwhile is waited out. */
async function waitForEnd(wait: {
  readonly client: ApiClient;
  readonly io: CommandIo;
  readonly id: string;
}): Promise<JobBody> {
  const { client, io, id } = wait;
  let awaySinceMs: number | null = null;
  for (;;) {
    try {
      const job = await client.get<JobBody>(`/api/jobs/${id}`);
      if (["Succeeded", "Failed", "Cancelled"].includes(job.state)) return job;
      awaySinceMs = null;
    } catch (error) {
      if (!(error instanceof ApiAwayError)) throw error;
      if (awaySinceMs === null) io.err(`${error.message}; waiting on\n`);
      awaySinceMs ??= performance.now();
      if (performance.now() - awaySinceMs > AWAY_LIMIT_MS) throw error;
    }
    await sleep(awaySinceMs === null ? POLL_MS : AWAY_POLL_MS, undefined, { signal: io.signal }).catch(() => {
      throw new Error(`stopped waiting for job ${id}, which goes on`);
    });
  }
}

export function show(io: CommandIo, options: ClientOptions, json: unknown, text: string): void {
  if (options.json === true) printJson(io, json);
  else io.out(text);
}

/** The client as a resource: closed at the end of its block, whatever happens in it. */
export function closing(client: ApiClient): ApiClient & AsyncDisposable {
  return { ...client, [Symbol.asyncDispose]: () => client.close() };
}
