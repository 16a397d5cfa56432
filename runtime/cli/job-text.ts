import { printable, printableLines } from "../core/printable.ts";
import { shortInstant } from "./table.ts";

/** A job as the API gives it. */
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
  readonly concurrencyKey: string | null;
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
  readonly parent?: { readonly id: string; readonly type: string | null } | null;
  readonly children?: readonly { readonly id: string; readonly type: string; readonly state: string }[];
  readonly hasMoreChildren?: boolean;
  readonly runsAlone?: string | null;
  readonly timeline?: readonly {
    readonly at: string;
    readonly from: string | null;
    readonly to: string;
    readonly reason: string | null;
  }[];
}

const RESULT_SHOWN = 400;

/** A result is shown whole with --json. */
function shorten(text: string): string {
  return text.length <= RESULT_SHOWN
    ? text
    : `${text.slice(0, RESULT_SHOWN)}… (${text.length} characters; all with --json)`;
}

export function stateText(job: JobBody): string {
  return job.hold === null ? job.state : `${job.state} (${job.hold})`;
}

export function sourceText(job: JobBody): string {
  return job.source === null ? "-" : `${job.source.file}:${job.source.line}`;
}

export function jobText(job: JobBody): string {
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
    ["key", job.concurrencyKey],
    ["worker", job.worker],
    ["schedule", job.schedule],
    ["parent", job.parent ? `${job.parent.id}${job.parent.type === null ? "" : `  ${job.parent.type}`}` : null],
    ["alone", job.runsAlone ? `in a process of its own (${job.runsAlone})` : null],
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
  // What handlers wrote may hold anything; further lines stand under the first.
  const below = `\n${" ".repeat(10)}`;
  const lines = facts.flatMap(([name, value]) =>
    value === null ? [] : [`${name.padEnd(10)}${printableLines(value).replaceAll("\n", below)}\n`],
  );
  const attempts = (job.attempts ?? []).map(
    (attempt) =>
      `  ${attempt.execution}  ${attempt.outcome.padEnd(10)} ${attempt.durationMs ?? "-"} ms  ${attempt.worker}${attempt.error === null ? "" : `  ${printable(attempt.error)}`}\n`,
  );
  const children = (job.children ?? []).map((child) => `  ${child.id}  ${child.state.padEnd(10)} ${child.type}\n`);
  const timeline = (job.timeline ?? []).map(
    (entry) =>
      `  ${shortInstant(entry.at)}  ${entry.from ?? "(new)"} → ${entry.to}${entry.reason === null ? "" : `  ${entry.reason}`}\n`,
  );
  return [
    ...lines,
    ...(attempts.length === 0 ? [] : ["attempts\n", ...attempts]),
    ...(children.length === 0 ? [] : ["children\n", ...children, ...(job.hasMoreChildren === true ? ["  …\n"] : [])]),
    ...(timeline.length === 0 ? [] : ["timeline\n", ...timeline]),
  ].join("");
}
