import type { Command } from "commander";
import { TurnoError } from "../../core/errors.ts";
import { printable } from "../../core/printable.ts";
import { describeSyncProblem } from "../../reconcile/sync-outcome.ts";
import { type CommandIo, EXIT, type ExitCode } from "../io.ts";
import type { JobBody } from "../job-text.ts";
import { shortInstant } from "../table.ts";
import { type Ask, askOnTerminal } from "./apply.ts";
import { type ClientOptions, closing, type OpenClient, show, withClientOptions } from "./jobs.ts";
import { whoAmI } from "./pauses.ts";

interface RevisionBody {
  readonly number: number;
  readonly source: { readonly name: string; readonly origin: string };
  readonly commit: string | null;
  readonly baseCommit: string | null;
  readonly author: string | null;
  readonly message: string | null;
  readonly appliedAt: string;
  readonly appliedBy: string;
  readonly rollbackOf: number | null;
  readonly changes: readonly string[];
}

interface RollbackBody {
  readonly revision: Omit<RevisionBody, "changes"> | null;
  readonly changes: readonly string[];
}

interface StatusBody {
  readonly items: readonly {
    readonly source: { readonly name: string; readonly origin: string };
    readonly status: string;
    readonly checkedAt: string;
    readonly reachedAt: string;
    readonly lastOkAt: string | null;
    readonly revision: number | null;
    readonly commit: string | null;
    readonly problems: readonly Parameters<typeof describeSyncProblem>[0][];
  }[];
}

interface RollbackOptions extends ClientOptions {
  readonly yes?: boolean;
}

const SHOWN_CHANGES = 20;
const SHOWN_PROBLEMS = 5;

/** `history`, `rollback`, `blame`, `status`: what was in force when, who brought it there, and the way back. */
export function addRevisionCommands(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  openClient: OpenClient,
  ask: Ask = askOnTerminal,
): void {
  withClientOptions(
    program
      .command("history")
      .description("show the revisions, newest first, with what each changed and who brought it into force")
      .option("--limit <n>", "how many, at most 200", "10"),
  ).action(async (options: ClientOptions & { readonly limit: string }) => {
    await using client = closing(await openClient(options));
    const page = await client.get<{ readonly items: readonly RevisionBody[] }>(
      `/api/revisions?limit=${encodeURIComponent(options.limit)}`,
    );
    show(io, options, page, page.items.map(revisionText).join("\n") || "Nothing was applied yet.\n");
  });

  withClientOptions(
    program
      .command("rollback <revision>")
      .description("bring back what was in force with a revision; the source is held until its files change")
      .option("--yes", "do not ask"),
  ).action(async (text: string, options: RollbackOptions) => {
    const path = `/api/revisions/${readRevision(text)}/rollback`;
    if (options.yes !== true && (!io.interactive || options.json === true)) {
      throw new TurnoError("TURNO_USAGE", "expected --yes, since nobody can be asked here");
    }
    await using client = closing(await openClient(options));
    if (options.yes !== true) {
      const { changes } = await client.post<RollbackBody>(path, { preview: true });
      io.out(`${changesText(changes)}`);
      const answer = await ask(`\nBring revision ${text} back? Only 'yes' is taken for a yes: `, io.signal);
      if (answer.trim() !== "yes") {
        io.err("Nothing was changed.\n");
        setExitCode(EXIT.failed);
        return;
      }
    }
    const done = await client.post<RollbackBody>(path, { by: whoAmI() });
    const number = done.revision?.number;
    const held = "the source is held until its files change, or turno sync --confirm";
    show(io, options, done, `${changesText(done.changes)}Revision ${number} is in force, as ${text} was; ${held}.\n`);
  });

  withClientOptions(
    program.command("blame <job>").description("show the file, line, commit and author that a job comes from"),
  ).action(async (id: string, options: ClientOptions) => {
    await using client = closing(await openClient(options));
    const job = await client.get<JobBody>(`/api/jobs/${encodeURIComponent(id)}`);
    const number = job.source?.revision ?? null;
    const revision = number === null ? null : await client.get<RevisionBody>(`/api/revisions/${number}`);
    show(io, options, { job: job.id, type: job.type, source: job.source, revision }, blameText(job, revision));
  });

  withClientOptions(
    program.command("status").description("show whether the source's files are in force, and what keeps them from it"),
  ).action(async (options: ClientOptions) => {
    await using client = closing(await openClient(options));
    const status = await client.get<StatusBody>("/api/sync");
    show(
      io,
      options,
      status,
      status.items.map(statusText).join("\n") || "No reconciler has looked at any files yet.\n",
    );
    if (status.items[0] !== undefined && status.items[0].status !== "Synced") setExitCode(EXIT.changes);
  });
}

function readRevision(text: string): string {
  if (/^\d{1,15}$/.test(text)) return text;
  throw new TurnoError("TURNO_USAGE", `expected the number of a revision, found "${printable(text)}"`, {
    hint: "turno history shows them",
  });
}

function revisionText(revision: RevisionBody): string {
  const { number, appliedAt, appliedBy, rollbackOf, changes } = revision;
  const how = rollbackOf === null ? "applied" : `rolled back to revision ${rollbackOf}`;
  return `revision ${number}  ${how} ${shortInstant(appliedAt)} by ${printable(appliedBy)}\n${commitText(revision)}${changesText(changes)}`;
}

function commitText({ commit, baseCommit, author, message }: RevisionBody): string {
  if (commit !== null) {
    return `  ${commit.slice(0, 12)} ${printable(author ?? "?")}: ${printable(message ?? "")}\n`;
  }
  return baseCommit === null ? "" : `  changed files on top of ${baseCommit.slice(0, 12)}\n`;
}

function changesText(changes: readonly string[]): string {
  if (changes.length === 0) return "    no object changed\n";
  const more = changes.length > SHOWN_CHANGES ? `    … and ${changes.length - SHOWN_CHANGES} more\n` : "";
  return `${changes
    .slice(0, SHOWN_CHANGES)
    .map((line) => `    ${printable(line)}\n`)
    .join("")}${more}`;
}

function blameText(job: JobBody, revision: RevisionBody | null): string {
  const { source } = job;
  if (source === null || source === undefined || revision === null) {
    return `${job.id}  ${printable(job.type)}: no file declares it any more, or it was made before revisions were kept\n`;
  }
  const made = job.schedule === null ? "" : `made by Schedule/${printable(job.schedule)}, `;
  return `${job.id}  ${printable(job.type)}\n  ${made}declared in ${printable(source.file)}:${source.line}\n${revisionText(revision)}`;
}

function statusText(status: StatusBody["items"][number]): string {
  const commit = status.commit === null ? "" : ` at ${status.commit.slice(0, 12)}`;
  const inForce = status.revision === null ? "nothing in force" : `revision ${status.revision} in force`;
  const problems = status.problems
    .slice(0, SHOWN_PROBLEMS)
    .map((problem) => `  ${printable(describeSyncProblem(problem))}\n`);
  const more = status.problems.length - problems.length;
  return [
    `${status.status}  ${printable(status.source.origin)}${commit}  ${inForce}\n`,
    `  reached ${shortInstant(status.reachedAt)}, looked at ${shortInstant(status.checkedAt)}, last in force as found ${shortInstant(status.lastOkAt)}\n`,
    ...problems,
    ...(more > 0 ? [`  … and ${more} more\n`] : []),
  ].join("");
}
