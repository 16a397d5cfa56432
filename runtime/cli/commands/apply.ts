import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import { applyDesired } from "../../reconcile/apply.ts";
import { hasChanges } from "../../reconcile/plan.ts";
import { renderPlan } from "../../reconcile/plan-text.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import {
  diffPreparedFires,
  isRefusal,
  type OpenReconcile,
  type PreparedPlan,
  preparePlan,
  type ReconcileSession,
} from "./plan.ts";

interface ApplyOptions {
  readonly dir?: string;
  readonly data?: string;
  readonly json?: boolean;
  readonly yes?: boolean;
  readonly confirmDeletes?: boolean;
  readonly takeOver?: boolean;
}

/** Asks a person; resolves to the answer. */
export type Ask = (question: string, signal: AbortSignal) => Promise<string>;

/** `turno apply`: the plan, a question, and exactly that plan. Exit 3 when a guard refused, 1 when the files have problems. */
export function addApplyCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  open: OpenReconcile,
  ask: Ask = askOnTerminal,
): void {
  program
    .command("apply")
    .description("bring the files into force: show the plan, ask, apply")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--data <folder>", "where the state lies, as for turno up (default: .turno)")
    .option("--yes", "do not ask")
    .option("--confirm-deletes", "allow that everything the includes declared is removed")
    .option("--take-over", "take the installation's objects from the source that applied them")
    .option("--json", "print the plan and the revision as JSON; needs --yes")
    .action(async (options: ApplyOptions) => {
      if (options.yes !== true && (!io.interactive || options.json === true)) {
        io.err("turno apply: expected --yes, since nobody can be asked here\n");
        setExitCode(EXIT.usage);
        return;
      }
      const session = await open({ dir: options.dir, data: options.data });
      try {
        setExitCode(await applyFiles({ session, io, options, ask }));
      } finally {
        await session.close();
      }
    });
}

async function applyFiles(request: {
  readonly session: ReconcileSession;
  readonly io: CommandIo;
  readonly options: ApplyOptions;
  readonly ask: Ask;
}): Promise<ExitCode> {
  const { session, io, options, ask } = request;
  const prepared = await preparePlan(session, io, options.json === true);
  if (prepared === null) return EXIT.failed;
  if (options.json !== true)
    io.out(renderPlan(prepared.plan, { colour: io.colour, fires: diffPreparedFires(prepared) }));
  if (hasChanges(prepared.plan) && options.yes !== true) {
    const answer = await ask("\nApply this? Only 'yes' is taken for a yes: ", io.signal);
    if (answer.trim() !== "yes") {
      io.err("Nothing was applied.\n");
      return EXIT.failed;
    }
  }
  try {
    await applyPrepared(prepared, request);
    return EXIT.done;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    io.err(`turno apply: ${error.message}${error.hint === null ? "" : `\n${error.hint}`}\n`);
    return EXIT.refused;
  }
}

async function applyPrepared(
  { look, plan }: PreparedPlan,
  {
    session,
    io,
    options,
  }: { readonly session: ReconcileSession; readonly io: CommandIo; readonly options: ApplyOptions },
): Promise<void> {
  const outcome = await applyDesired(session.store, {
    desired: look.desired,
    source: session.source.identity,
    provenance: look.snapshot.provenance,
    appliedBy: session.appliedBy,
    base: plan.base.revision,
    confirmDeletes: options.confirmDeletes ?? false,
    takeOver: options.takeOver ?? false,
  });
  if (outcome.kind === "applied") session.doorbell.ring({ kind: "revision" });
  const { number, commit } = outcome.revision;
  if (options.json === true) printJson(io, { ...plan, revision: { number, commit } });
  // Objects that only moved in their files make a revision, and are no change to anybody.
  else if (outcome.kind === "applied") io.out(`\nRevision ${number} is in force.\n`);
}

/** On standard error, so that standard output stays the command's. */
export async function askOnTerminal(question: string, signal: AbortSignal): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // The end of the input is an answer too: none.
  const closed = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
  try {
    return await Promise.race([terminal.question(question, { signal }), closed]);
  } catch {
    return "";
  } finally {
    terminal.close();
  }
}
