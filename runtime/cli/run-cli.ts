import { Command, CommanderError } from "commander";
import { describeError, TurnoError } from "../core/errors.ts";
import { VERSION } from "../version.ts";
import { addApplyCommand } from "./commands/apply.ts";
import { addDatabaseCommands } from "./commands/database.ts";
import { addFleetCommands } from "./commands/fleet.ts";
import { addInitCommand } from "./commands/init.ts";
import { addJobCommands } from "./commands/jobs.ts";
import { addNextCommand } from "./commands/next.ts";
import { addPlanCommand } from "./commands/plan.ts";
import { addRoleCommands } from "./commands/roles.ts";
import { addSchemaCommand } from "./commands/schema.ts";
import { addUpCommand } from "./commands/up.ts";
import { addValidateCommand } from "./commands/validate.ts";
import { type CommandIo, EXIT, type ExitCode } from "./io.ts";
import { openClient } from "./open-client.ts";
import { openReconcile } from "./open-reconcile.ts";
import { loadWholeProject, openProject } from "./project.ts";

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
    return error instanceof TurnoError && error.code === "TURNO_USAGE" ? EXIT.usage : EXIT.failed;
  }
}

function buildProgram(io: CommandIo, setExitCode: (code: ExitCode) => void): Command {
  const program = new Command("turno")
    .description("Declarative jobs and schedules: YAML in git, TypeScript handlers, PostgreSQL as the truth.")
    .version(VERSION)
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({ writeOut: io.out, writeErr: io.err });
  const open = (options: Parameters<typeof openClient>[1]) => openClient(io, options);
  const reconcile = (dir: string | undefined) => openReconcile(io, dir);
  addUpCommand(program, io);
  addRoleCommands(program, io);
  addInitCommand(program, io, setExitCode);
  addValidateCommand(program, io, setExitCode);
  addPlanCommand(program, io, setExitCode, reconcile);
  addApplyCommand(program, io, setExitCode, reconcile);
  addSchemaCommand(program, io, setExitCode);
  addNextCommand(program, io, setExitCode, findSchedule, () => new Date());
  addJobCommands(program, io, setExitCode, open);
  addFleetCommands(program, io, open);
  addDatabaseCommands(program, io, setExitCode);
  for (const command of program.commands)
    command.exitOverride().configureOutput({ writeOut: io.out, writeErr: io.err });
  return program;

  async function findSchedule(name: string) {
    const { state } = await loadWholeProject(await openProject(io, { dir: undefined }));
    const schedule = state?.objects.find((object) => object.kind === "Schedule" && object.name === name);
    return schedule?.kind === "Schedule" ? { timing: schedule.spec.timing, timeZone: schedule.spec.timeZone } : null;
  }
}

function errorText(error: unknown): string {
  if (!(error instanceof TurnoError)) return `turno: ${describeError(error)}\n`;
  const where =
    error.position === null ? "" : `${error.position.file}:${error.position.line}:${error.position.column}: `;
  return `turno: ${where}${error.message} [${error.code}]\n${error.hint === null ? "" : `  ${error.hint}\n`}`;
}
