import type { Command } from "commander";
import { printable } from "../../core/printable.ts";
import type { Drift } from "../../protocol/ports/revisions.ts";
import { writeChanges } from "../../reconcile/change-words.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { type OpenReconcile, preparePlan } from "./plan.ts";

interface DriftOptions {
  readonly dir?: string;
  readonly data?: string;
  readonly json?: boolean;
}

const EDITS = {
  edited: "was edited in the database",
  missing: "was removed from the database",
  undeclared: "is in the database and declared nowhere",
} as const;

/** `turno drift`: the database against the source's files, and what was changed by hand. Exit 2 when there is any. */
export function addDriftCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  open: OpenReconcile,
): void {
  program
    .command("drift")
    .description("compare what is in force with the source's files, and show what was changed by hand")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--data <folder>", "where the state lies, as for turno up (default: .turno)")
    .option("--json", "print JSON")
    .action(async (options: DriftOptions) => {
      const session = await open({ dir: options.dir, data: options.data, fromSource: true });
      try {
        const prepared = await preparePlan(session, io, options.json === true);
        if (prepared === null) {
          setExitCode(EXIT.failed);
          return;
        }
        const { plan, look, applied } = prepared;
        const changes = writeChanges(plan.changes, look.desired).map((change) => change.words ?? "");
        const drift = await session.store.loadDrift();
        const base = { revision: plan.base.revision, rollbackOf: applied.inForce?.rollbackOf ?? null };
        if (options.json === true) printJson(io, { base, changes, ...drift });
        else io.out(toText(base, changes, drift));
        const isSame = changes.length + drift.edited.length + drift.pauses.length === 0;
        setExitCode(isSame ? EXIT.done : EXIT.changes);
      } finally {
        await session.close();
      }
    });
}

function toText(
  base: { readonly revision: number | null; readonly rollbackOf: number | null },
  changes: readonly string[],
  { edited, pauses }: Drift,
): string {
  const rollback = base.rollbackOf === null ? "" : `, brought back from revision ${base.rollbackOf}`;
  const inForce = base.revision === null ? "nothing is in force" : `revision ${base.revision} is in force${rollback}`;
  const blocks = [
    { heading: "In the files and not in force:", lines: changes },
    { heading: "By hand:", lines: edited.map(({ kind, name, what }) => `${kind}/${name} ${EDITS[what]}`) },
    {
      heading: "Paused:",
      lines: pauses.map(({ kind, name, by, reason, until }) => {
        const end = until === null ? "" : ` until ${until.toISOString()}`;
        return `${kind}/${name} by ${by}${end}${reason === null ? "" : `: ${reason}`}`;
      }),
    },
  ].filter(({ lines }) => lines.length > 0);
  if (blocks.length === 0) return `No drift: ${inForce}, and it is what the files say.\n`;
  const text = blocks.map(
    ({ heading, lines }) => `${heading}\n${lines.map((line) => `  ${printable(line)}\n`).join("")}`,
  );
  return `${inForce}\n${text.join("")}`;
}
