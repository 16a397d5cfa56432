import type { Command } from "commander";
import { formatReport } from "../../config/report.ts";
import { TurnoError } from "../../core/errors.ts";
import type { AppliedState, ProjectSource, RevisionStore } from "../../protocol/ports/revisions.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { isOwnedByOther, removesEverything } from "../../reconcile/apply.ts";
import type { Look } from "../../reconcile/look.ts";
import { hasChanges, type Plan, planChanges } from "../../reconcile/plan.ts";
import { renderPlan } from "../../reconcile/plan-text.ts";
import { countMisfits } from "../../reconcile/waiting-payloads.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";

/** A project's files and the database they are compared with. */
export interface ReconcileSession {
  readonly source: ProjectSource;
  /** From `createLook`. */
  readonly look: (signal: AbortSignal) => Promise<Look>;
  readonly store: RevisionStore;
  readonly doorbell: Pick<Doorbell, "ring">;
  /** Who applies, for the history. */
  readonly appliedBy: string;
  /** Turno's version, for reports. */
  readonly version: string;
  close(): Promise<void>;
}

/** Which project; without `dir` the one in the folder where the command was started. */
export interface ReconcileOptions {
  readonly dir: string | undefined;
  /** Where the embedded database's state lies, as of `turno up --data`. */
  readonly data: string | undefined;
}

export type OpenReconcile = (options: ReconcileOptions) => Promise<ReconcileSession>;

interface PlanOptions {
  readonly dir?: string;
  readonly data?: string;
  readonly json?: boolean;
  readonly format: string;
}

export const PLAN_FORMATS = ["text", "json"] as const;
/** Jobs of a removed type are counted for the plan up to this many. */
const COUNTED_JOBS = 10_000;

/** `turno plan`: what an apply would change. Exit 0 without changes, 2 with some, 1 when the files have problems. */
export function addPlanCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  open: OpenReconcile,
): void {
  program
    .command("plan")
    .description("show what an apply would change, and what follows from it")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--data <folder>", "where the state lies, as for turno up (default: .turno)")
    .option("--json", "print JSON, as --format json does")
    .option("--format <format>", PLAN_FORMATS.join(" or "), "text")
    .action(async (options: PlanOptions) => {
      const format = options.json === true ? "json" : options.format;
      if (!PLAN_FORMATS.some((known) => known === format)) {
        io.err(`turno plan: expected --format ${PLAN_FORMATS.join(" or ")}, found ${format}\n`);
        setExitCode(EXIT.usage);
        return;
      }
      const session = await open({ dir: options.dir, data: options.data });
      try {
        const prepared = await preparePlan(session, io, format === "json");
        if (prepared === null) {
          setExitCode(EXIT.failed);
          return;
        }
        if (format === "json") printJson(io, prepared.plan);
        else io.out(renderPlan(prepared.plan, io));
        setExitCode(hasChanges(prepared.plan) ? EXIT.changes : EXIT.done);
      } finally {
        await session.close();
      }
    });
}

export interface PreparedPlan {
  readonly look: Look & { readonly kind: "ready" };
  readonly plan: Plan;
}

/** Compares the files with what is in force. Null: the files have problems, which were printed. */
export async function preparePlan(
  session: ReconcileSession,
  io: CommandIo,
  json: boolean,
): Promise<PreparedPlan | null> {
  const look = await session.look(io.signal);
  const report = (format: "text" | "json") =>
    formatReport(look.problems, format, { files: look.snapshot.files, colour: io.colour, version: session.version });
  if (look.kind === "invalid") {
    if (json) io.out(report("json"));
    else io.err(report("text"));
    return null;
  }
  // Standard output is the plan's: warnings about the files go beside it.
  if (look.problems.length > 0) io.err(report("text"));
  const applied = await session.store.loadApplied();
  const { desired } = look;
  const removed = applied.jobTypes.flatMap(({ name }) => (desired.definitions.has(name) ? [] : [name]));
  const plan = planChanges(desired, applied, {
    live: await session.store.countLiveJobs(removed, COUNTED_JOBS),
    misfits: await countMisfits(session.store, desired, applied),
  });
  return { look, plan: { ...plan, warnings: [...plan.warnings, ...guardWarnings(session, look, applied)] } };
}

/** What an apply would be refused for. */
function guardWarnings(
  { source }: ReconcileSession,
  { desired }: PreparedPlan["look"],
  applied: AppliedState,
): readonly string[] {
  const warnings: string[] = [];
  if (isOwnedByOther(source.identity, applied)) {
    warnings.push(
      `the objects in force were applied from ${applied.owner?.origin}: an apply from here needs --take-over.`,
    );
  }
  if (removesEverything(desired, applied)) {
    warnings.push(
      "the includes match no file, which would remove every declared object: an apply needs --confirm-deletes.",
    );
  }
  return warnings;
}

/** Guards that a person can lift, and a base that moved: nothing failed, nothing was applied. */
export function isRefusal(error: unknown): error is TurnoError {
  return (
    error instanceof TurnoError &&
    (error.code === "TURNO_SOURCE_STALE" || error.code === "TURNO_SOURCE_OWNED" || error.code === "TURNO_INCLUDE_EMPTY")
  );
}
