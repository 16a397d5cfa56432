import type { Command } from "commander";
import { printable } from "../../core/printable.ts";
import type { AppliedState } from "../../protocol/ports/revisions.ts";
import type { Desired } from "../../reconcile/desired.ts";
import { hasChanges, planChanges } from "../../reconcile/plan.ts";
import { renderPlan } from "../../reconcile/plan-text.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";

interface DiffOptions {
  readonly dir?: string;
  readonly json?: boolean;
}

/** One side of a comparison: files of a folder or a commit, or a revision of the database. */
export interface Side {
  readonly desired: Desired;
  /** What would be in force had this side been applied. */
  readonly applied: AppliedState;
}

export type OpenSides = (options: {
  readonly dir: string | undefined;
  /** `git:REF`, a folder, or a revision's number. */
  readonly names: readonly [string, string];
}) => Promise<readonly [Side, Side]>;

/** `turno diff A B`: what changes from one to the other. Exit 2 when anything does. */
export function addDiffCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  open: OpenSides,
): void {
  program
    .command("diff <a> <b>")
    .description("show what changes between two folders, commits (git:REF) or revisions (numbers)")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--json", "print JSON")
    .action(async (a: string, b: string, options: DiffOptions) => {
      const [before, after] = await open({ dir: options.dir, names: [a, b] });
      const plan = planChanges(after.desired, before.applied);
      if (options.json === true) printJson(io, { from: a, to: b, changes: plan.changes });
      else
        io.out(renderPlan({ ...plan, consequences: [], warnings: [] }, { colour: io.colour, against: printable(a) }));
      setExitCode(hasChanges(plan) ? EXIT.changes : EXIT.done);
    });
}
