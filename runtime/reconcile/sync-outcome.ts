import type { Problem } from "../config/problems.ts";
import type { ErrorCode } from "../core/error-codes.ts";
import type { TurnoError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { RevisionSummary, SyncProblem, SyncState } from "../protocol/ports/revisions.ts";
import type { Plan } from "./plan.ts";

/** What one look at the files led to. `problems` holds warnings too. */
export type SyncOutcome =
  | {
      readonly kind: "applied";
      readonly revision: RevisionSummary;
      readonly plan: Plan;
      readonly problems: readonly Problem[];
    }
  | { readonly kind: "unchanged"; readonly revision: RevisionSummary; readonly problems: readonly Problem[] }
  /** The files have problems: the last good revision stays in force. */
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] }
  /** The files could not be read, or may not be applied. */
  | { readonly kind: "refused"; readonly error: TurnoError };

/** What an outcome says of its source. Null: the source did not answer, what was known of it stays. */
export function syncState(outcome: SyncOutcome): SyncState | null {
  if (outcome.kind === "invalid") return "Invalid";
  if (outcome.kind !== "refused") return "Synced";
  const { code } = outcome.error;
  if (code === "TURNO_SOURCE_UNREACHABLE") return null;
  if (HOLDS.includes(code)) return "Held";
  return UNUSABLE.includes(code) ? "Invalid" : "OutOfSync";
}

/** Somebody has to say that it is meant. */
const HOLDS: readonly ErrorCode[] = [
  "TURNO_SOURCE_HELD",
  "TURNO_SOURCE_REWRITTEN",
  "TURNO_INCLUDE_EMPTY",
  "TURNO_GUARD_DELETES",
  "TURNO_GUARD_FIRES",
  "TURNO_GUARD_PROTECTED",
];
/** The files have to be others. */
const UNUSABLE: readonly ErrorCode[] = [
  "TURNO_SOURCE_REFUSED",
  "TURNO_SOURCE_UNSIGNED",
  "TURNO_PROJECT_MISSING",
  "TURNO_PROJECT_UNREADABLE",
  "TURNO_PROJECT_INVALID",
];

/** The problems of an outcome, as the state of the source keeps them. */
export function syncProblems(outcome: SyncOutcome): readonly SyncProblem[] {
  if (outcome.kind !== "refused") {
    // What keeps the files from being in force comes before what is merely worth a look.
    const errors = outcome.problems.filter(({ severity }) => severity === "error");
    const others = outcome.problems.filter(({ severity }) => severity !== "error");
    return [...errors, ...others].map(({ code, message, file, line, column, hint }) => ({
      code,
      message,
      file,
      line,
      column,
      hint,
    }));
  }
  const { code, message, hint, position } = outcome.error;
  const { file = null, line = null, column = null } = position ?? {};
  return [{ code, message, file, line, column, hint }];
}

/** Writes outcomes to the log, each once however often it is seen again. */
export function createSyncReport(logger: Logger): (outcome: SyncOutcome) => void {
  let last = "";
  let hadFailed = false;
  return (outcome) => {
    const problems = syncProblems(outcome);
    const key = JSON.stringify([outcome.kind === "invalid" || outcome.kind === "refused", problems]);
    const isNew = key !== last;
    last = key;
    if (outcome.kind === "applied") {
      const { revision, plan } = outcome;
      logger.info(`revision ${revision.number} is in force`, {
        revision: revision.number,
        commit: revision.commit,
        changes: plan.changes.flatMap(({ action, object }) => (action === "none" ? [] : [`${action} ${object}`])),
        consequences: plan.consequences,
      });
      for (const warning of plan.warnings) logger.warn(warning, { revision: revision.number });
    }
    const failed = outcome.kind === "invalid" || outcome.kind === "refused";
    if (hadFailed && outcome.kind === "unchanged") {
      logger.info(`the files are what is in force again, revision ${outcome.revision.number}`);
    }
    hadFailed = failed;
    if (!isNew) return;
    if (failed)
      logger.error("the files were not applied, the last good revision stays in force", { problems: problems.length });
    for (const problem of problems) {
      if (failed) logger.error(describeSyncProblem(problem), { code: problem.code });
      else logger.warn(describeSyncProblem(problem), { code: problem.code });
    }
  };
}

/** `turno.d/a.yaml:3:5: expected … (hint)`. */
export function describeSyncProblem({ file, line, column, message, hint }: SyncProblem): string {
  const place = file === null ? "" : `${file}:${line ?? 1}:${column ?? 1}: `;
  return `${place}${message}${hint === null ? "" : ` (${hint})`}`;
}
