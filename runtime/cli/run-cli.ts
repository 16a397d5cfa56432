import { Command, CommanderError } from "commander";
import { readProjectFiles } from "../adapters/files/read-project.ts";
import { redactText } from "../adapters/system/redact.ts";
import { describeError, TurnoError } from "../core/errors.ts";
import { RejectedError } from "../protocol/ports/errors.ts";
import { VERSION } from "../version.ts";
import { addApplyCommand } from "./commands/apply.ts";
import { addBackfillCommand } from "./commands/backfill.ts";
import { addCalendarCommand } from "./commands/calendar.ts";
import { addDatabaseCommands } from "./commands/database.ts";
import { addDiffCommand } from "./commands/diff.ts";
import { addDriftCommand } from "./commands/drift.ts";
import { addFleetCommands } from "./commands/fleet.ts";
import { addFmtCommand } from "./commands/fmt.ts";
import { addInitCommand } from "./commands/init.ts";
import { addJobCommands } from "./commands/jobs.ts";
import { addLintCommand } from "./commands/lint.ts";
import { addNextCommand } from "./commands/next.ts";
import { addPauseCommands } from "./commands/pauses.ts";
import { addPlanCommand, type ReconcileOptions } from "./commands/plan.ts";
import { addRevisionCommands } from "./commands/revisions.ts";
import { addRoleCommands } from "./commands/roles.ts";
import { addSchemaCommand } from "./commands/schema.ts";
import { addSimulateCommand } from "./commands/simulate.ts";
import { addSyncCommand } from "./commands/sync.ts";
import { addTestCommand } from "./commands/time-test.ts";
import { addUpCommand } from "./commands/up.ts";
import { addValidateCommand } from "./commands/validate.ts";
import { addWhyCommand } from "./commands/why.ts";
import { type CommandIo, EXIT, type ExitCode } from "./io.ts";
import { openClient } from "./open-client.ts";
import { openHistory } from "./open-history.ts";
import { openOtherFiles } from "./open-other-files.ts";
import { openReconcile } from "./open-reconcile.ts";
import { openSides } from "./open-sides.ts";
import { openSync } from "./open-sync.ts";
import { loadBy, projectRoot } from "./project.ts";

/** Runs one command line (without node and script); resolves to its exit code, never rejects. */
export async function runCli(args: readonly string[], io: CommandIo): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT.done;
  const setExitCode = (code: ExitCode): void => {
    exitCode = code;
  };
  try {
    await buildProgram(io, setExitCode).parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    io.err(errorText(error));
    if (io.env.TURNO_LOG_LEVEL === "debug" && error instanceof Error) io.err(`${redactText(error.stack ?? "")}\n`);
    return error instanceof TurnoError && error.code === "TURNO_USAGE" ? EXIT.usage : EXIT.failed;
  }
}

function buildProgram(io: CommandIo, setExitCode: (code: ExitCode) => void): Command {
  const program = new Command("turno")
    .description("Declarative jobs and schedules: YAML in git, TypeScript handlers, PostgreSQL as the truth.")
    .version(VERSION)
    .exitOverride()
    .showSuggestionAfterError()
    .showHelpAfterError("(--help shows what is there)")
    .configureOutput({ writeOut: io.out, writeErr: io.err });
  const open = (options: Parameters<typeof openClient>[1]) => openClient(io, options);
  const reconcile = (options: ReconcileOptions) => openReconcile(io, options);
  addUpCommand(program, io);
  addRoleCommands(program, io);
  addInitCommand(program, io, setExitCode);
  addValidateCommand(program, io, setExitCode);
  addTestCommand(program, io, setExitCode, () => new Date());
  addLintCommand(program, io, setExitCode, () => new Date());
  addFmtCommand(program, io, setExitCode);
  addPlanCommand(program, io, setExitCode, {
    database: reconcile,
    files: (options) => openOtherFiles(io, options),
  });
  addApplyCommand(program, io, setExitCode, reconcile);
  addDriftCommand(program, io, setExitCode, reconcile);
  addDiffCommand(program, io, setExitCode, (options) => openSides(io, options));
  addSchemaCommand(program, io, setExitCode);
  addNextCommand(program, io, setExitCode, findSchedule, () => new Date());
  addCalendarCommand(program, io, setExitCode, () => new Date());
  addWhyCommand(program, io, setExitCode, { openClient: open, loadSchedule: findSchedule });
  addBackfillCommand(program, io, setExitCode, (options) => openHistory(io, options));
  addSimulateCommand(program, io, setExitCode, {
    openHistory: (options) => openHistory(io, options),
    now: () => new Date(),
  });
  addJobCommands(program, io, setExitCode, open);
  addFleetCommands(program, io, open);
  addPauseCommands(program, io, open);
  addRevisionCommands(program, io, setExitCode, open);
  addSyncCommand(program, io, setExitCode, { sync: (options) => openSync(io, options), client: open });
  addDatabaseCommands(program, io, setExitCode);
  return program;

  /** Needs no settings, so none of the environment that they refer to. */
  async function findSchedule(name: string, dir: string | undefined) {
    const root = projectRoot(io, dir);
    const { state, problems } = loadBy(root, io.env)(await readProjectFiles(root));
    if (state === null) {
      const count = problems.filter(({ severity }) => severity === "error").length;
      throw new TurnoError("TURNO_PROJECT_INVALID", `the project's files have ${count} problems`, {
        hint: "turno validate shows all",
      });
    }
    const schedule = state.objects.find((object) => object.kind === "Schedule" && object.name === name);
    return schedule?.kind === "Schedule" ? { timing: schedule.spec.timing, timeZone: schedule.spec.timeZone } : null;
  }
}

const ADDRESS_HINT =
  "is PostgreSQL running, and is its address right in TURNO_DATABASE_URL or spec.runtime.database.url?";

/** No answer at all, in contrast to a refusal that has a code of PostgreSQL's. */
function isUnreachable(error: TurnoError): boolean {
  return error instanceof RejectedError && error.sqlState === null;
}

function errorText(error: unknown): string {
  if (!(error instanceof TurnoError)) return `turno: ${describeError(error)}\n`;
  const where =
    error.position === null ? "" : `${error.position.file}:${error.position.line}:${error.position.column}: `;
  const hint = error.hint ?? (isUnreachable(error) ? ADDRESS_HINT : null);
  return `turno: ${where}${error.message} [${error.code}]\n${hint === null ? "" : `  ${hint}\n`}`;
}
