import type { Command } from "commander";
import { printable } from "../../core/printable.ts";
import { describeSyncProblem, type SyncOutcome, syncProblems, syncState } from "../../reconcile/sync-outcome.ts";
import type { Reconciler } from "../../services/reconciler.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { closing, type OpenClient } from "./jobs.ts";

interface SyncOptions {
  readonly dir?: string;
  readonly data?: string;
  readonly server?: string;
  readonly confirm?: boolean;
  readonly json?: boolean;
}

export type OpenSync = (options: {
  readonly dir: string | undefined;
  readonly data: string | undefined;
  readonly confirm: boolean;
}) => Promise<{ readonly reconciler: Pick<Reconciler, "syncOnce">; close(): Promise<void> }>;

/** `turno sync`: a look at the source now. Exit 3 when it is held, 1 when it can't be brought into force. */
export function addSyncCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  open: { readonly sync: OpenSync; readonly client: OpenClient },
): void {
  program
    .command("sync")
    .description("look at the source now, and bring what it holds into force")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--data <folder>", "where the state lies, as for turno up (default: .turno)")
    .option("--server <url>", "ask the reconcilers of this Turno server to look (TURNO_API_KEY)")
    .option("--confirm", "apply what guards, a rollback or a rewritten history hold back")
    .option("--json", "print JSON")
    .action(async (options: SyncOptions) => {
      if (options.server !== undefined) {
        if (options.confirm === true) {
          io.err("turno sync: --confirm is for where the source is, not for --server\n");
          setExitCode(EXIT.usage);
          return;
        }
        await using client = closing(await open.client({ server: options.server }));
        const answer = await client.post<unknown>("/api/sync");
        if (options.json === true) printJson(io, answer);
        else io.out("The reconcilers are asked to look; turno status shows what came of it.\n");
        return;
      }
      const session = await open.sync({ dir: options.dir, data: options.data, confirm: options.confirm === true });
      try {
        const outcome = await session.reconciler.syncOnce(io.signal);
        if (options.json === true) printJson(io, toJson(outcome));
        else io.out(toText(outcome));
        setExitCode(exitOf(outcome));
      } finally {
        await session.close();
      }
    });
}

function exitOf(outcome: SyncOutcome): ExitCode {
  if (outcome.kind === "applied" || outcome.kind === "unchanged") return EXIT.done;
  return syncState(outcome) === "Held" ? EXIT.refused : EXIT.failed;
}

function toJson(outcome: SyncOutcome) {
  const revision = outcome.kind === "applied" || outcome.kind === "unchanged" ? outcome.revision.number : null;
  return { outcome: outcome.kind, status: syncState(outcome), revision, problems: syncProblems(outcome) };
}

function toText(outcome: SyncOutcome): string {
  if (outcome.kind === "applied") return `Revision ${outcome.revision.number} is in force.\n`;
  if (outcome.kind === "unchanged") return `No changes: revision ${outcome.revision.number} is in force.\n`;
  const lines = syncProblems(outcome).map((problem) => `  ${printable(describeSyncProblem(problem))}\n`);
  return `${syncState(outcome) ?? "Unreachable"}: what was in force stays.\n${lines.join("")}`;
}
