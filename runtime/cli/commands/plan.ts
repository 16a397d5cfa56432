import type { Command } from "commander";
import { formatReport } from "../../config/report.ts";
import { parseDuration } from "../../core/duration.ts";
import type { ErrorCode } from "../../core/error-codes.ts";
import { TurnoError } from "../../core/errors.ts";
import { printable } from "../../core/printable.ts";
import type { AppliedState, ProjectSource, RevisionStore } from "../../protocol/ports/revisions.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import { isOwnedByOther, removesEverything } from "../../reconcile/apply.ts";
import { diffFires, type FireDiff } from "../../reconcile/fire-diff.ts";
import { findRefusals } from "../../reconcile/guards.ts";
import type { Look } from "../../reconcile/look.ts";
import { hasChanges, type Plan, planChanges } from "../../reconcile/plan.ts";
import { renderPlanMarkdown } from "../../reconcile/plan-markdown.ts";
import { renderPlan } from "../../reconcile/plan-text.ts";
import { findCancelled } from "../../reconcile/removals.ts";
import { findRenames, renameApplied } from "../../reconcile/renames.ts";
import { countMisfits } from "../../reconcile/waiting-payloads.ts";
import { parseInstant } from "../../time/next-fire.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { usage } from "../usage.ts";

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
  /** The files of the declared source instead of the folder's own. */
  readonly fromSource?: boolean;
}

export type OpenReconcile = (options: ReconcileOptions) => Promise<ReconcileSession>;

interface PlanOptions {
  readonly dir?: string;
  readonly data?: string;
  readonly json?: boolean;
  readonly format: string;
  readonly against: string;
  readonly fires: string;
  readonly from?: string;
}

/** What the files are compared with when it is other files: a folder, or a commit of the project's repository. */
export type OpenOtherFiles = (options: {
  readonly dir: string | undefined;
  /** `git:REF` or a folder. */
  readonly against: string;
}) => Promise<OtherFiles>;

export interface OtherFiles {
  /** The project's own files. */
  readonly look: (signal: AbortSignal) => Promise<Look>;
  /** What would be in force had the other files been applied. */
  readonly loadApplied: (signal: AbortSignal) => Promise<AppliedState>;
  readonly version: string;
  close(): Promise<void>;
}

export const PLAN_FORMATS = ["text", "json", "markdown"] as const;
type PlanFormat = (typeof PLAN_FORMATS)[number];
/** Jobs of a removed type are counted for the plan up to this many. */
const COUNTED_JOBS = 10_000;
const DEFAULT_FIRES = "14d";

/** `turno plan`: what an apply would change. Exit 0 without changes, 2 with some, 1 when the files have problems. */
export function addPlanCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  open: { readonly database: OpenReconcile; readonly files: OpenOtherFiles },
): void {
  program
    .command("plan")
    .description("show what an apply would change, and what follows from it")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--data <folder>", "where the state lies, as for turno up (default: .turno)")
    .option("--against <base>", "what to compare with: db, git:REF or a folder", "db")
    .option("--fires <duration>", "how much of the coming time is compared, at most 400d", DEFAULT_FIRES)
    .option("--from <instant>", "compare fires after this instant (default: now)")
    .option("--json", "print JSON, as --format json does")
    .option("--format <format>", `${PLAN_FORMATS.slice(0, -1).join(", ")} or ${PLAN_FORMATS.at(-1)}`, "text")
    .action(async (options: PlanOptions) => {
      const format = options.json === true ? "json" : options.format;
      if (!isFormat(format)) {
        io.err(`turno plan: expected --format text, json or markdown, found ${format}\n`);
        setExitCode(EXIT.usage);
        return;
      }
      const span = {
        from: options.from === undefined ? null : usage("--from", () => parseInstant(options.from ?? "")),
        lengthMs: usage("--fires", () => parseDuration(options.fires)),
      };
      const { against, dir, data } = options;
      const isFiles = against !== "db";
      const session = isFiles ? await open.files({ dir, against }) : await open.database({ dir, data });
      try {
        const prepared = await ("store" in session
          ? preparePlan(session, io, format === "json")
          : prepareComparison(session, io, format === "json"));
        if (prepared === null) {
          setExitCode(EXIT.failed);
          return;
        }
        const { plan } = prepared;
        const fires = diffPreparedFires(prepared, span);
        if (format === "json") printJson(io, toJson(plan, fires, isFiles ? against : null));
        else if (format === "markdown") io.out(renderPlanMarkdown(plan, fires));
        else
          io.out(renderPlan(plan, { colour: io.colour, fires, ...(isFiles ? { against: printable(against) } : {}) }));
        setExitCode(hasChanges(plan) ? EXIT.changes : EXIT.done);
      } finally {
        await session.close();
      }
    });
}

function isFormat(format: string): format is PlanFormat {
  return PLAN_FORMATS.some((known) => known === format);
}

/** The plan's members in the order they are read in. */
function toJson({ base, changes, consequences, warnings }: Plan, fires: FireDiff, against: string | null) {
  return { base: against === null ? base : { ...base, against }, changes, fires, consequences, warnings };
}

/** The fires that an apply would change, from now or another instant on. */
export function diffPreparedFires(
  { look, applied }: PreparedPlan,
  span: { readonly from: Date | null; readonly lengthMs: number } = {
    from: null,
    lengthMs: parseDuration(DEFAULT_FIRES),
  },
): FireDiff {
  const from = span.from ?? applied.now;
  // A renamed schedule's fires are the same ones.
  const renamed = renameApplied(applied, findRenames(look.desired, applied));
  return diffFires({ desired: look.desired, applied: renamed, from, to: new Date(from.getTime() + span.lengthMs) });
}

export interface PreparedPlan {
  readonly look: Look & { readonly kind: "ready" };
  readonly applied: AppliedState;
  readonly plan: Plan;
}

/** Compares the files with what is in force. Null: the files have problems, which were printed. */
export async function preparePlan(
  session: ReconcileSession,
  io: CommandIo,
  json: boolean,
): Promise<PreparedPlan | null> {
  const look = await takeLook(session, io, json);
  if (look === null) return null;
  const applied = await session.store.loadApplied();
  const { desired } = look;
  const removed = applied.jobTypes.flatMap(({ name }) => (desired.definitions.has(name) ? [] : [name]));
  const renamed = renameApplied(applied, findRenames(desired, applied));
  const plan = planChanges(desired, applied, {
    live: await session.store.countLiveJobs(removed, COUNTED_JOBS),
    cancelled: await session.store.countWaitingJobs(findCancelled(desired, renamed.objects), COUNTED_JOBS),
    misfits: await countMisfits(session.store, desired, applied),
  });
  const warnings = [...plan.warnings, ...guardWarnings(session, look, applied)];
  return { look, applied, plan: { ...plan, warnings } };
}

/** Compares the files with other files: nothing that runs or waits is known then. */
async function prepareComparison(session: OtherFiles, io: CommandIo, json: boolean): Promise<PreparedPlan | null> {
  const look = await takeLook(session, io, json);
  if (look === null) return null;
  const applied = await session.loadApplied(io.signal);
  return { look, applied, plan: planChanges(look.desired, applied) };
}

export async function takeLook(
  session: Pick<OtherFiles, "look" | "version">,
  io: CommandIo,
  json: boolean,
): Promise<PreparedPlan["look"] | null> {
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
  return look;
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
  for (const { message, hint } of findRefusals(desired, applied)) {
    warnings.push(`an apply would be refused: ${message}${hint === null ? "" : ` (${hint})`}.`);
  }
  return warnings;
}

/** Guards that a person can lift, and a base that moved: nothing failed, nothing was applied. */
export function isRefusal(error: unknown): error is TurnoError {
  return error instanceof TurnoError && REFUSALS.includes(error.code);
}

const REFUSALS: readonly ErrorCode[] = [
  "TURNO_SOURCE_STALE",
  "TURNO_SOURCE_OWNED",
  "TURNO_INCLUDE_EMPTY",
  "TURNO_GUARD_DELETES",
  "TURNO_GUARD_FIRES",
  "TURNO_GUARD_PROTECTED",
];
