import { type Command, Option } from "commander";
import { readProjectFiles } from "../../adapters/files/read-project.ts";
import { typeCheckHandlers } from "../../adapters/handlers/type-check.ts";
import { type LoadedProject, PROJECT_FILE } from "../../config/load-project.ts";
import { hasErrors, type Problem, sortProblems } from "../../config/problems.ts";
import { formatReport, REPORT_FORMATS, type ReportFormat } from "../../config/report.ts";
import { describeError, type ErrorCode, TurnoError } from "../../core/errors.ts";
import { VERSION } from "../../version.ts";
import { type CommandIo, EXIT, type ExitCode } from "../io.ts";
import { loadBy, projectRoot } from "../project.ts";

interface ValidateOptions {
  readonly format: ReportFormat;
  readonly json?: boolean;
  readonly dir?: string;
  readonly types: boolean;
}

/** `turno validate`: every problem of all files, sorted by file and line; exit 1 when there is an error. */
export function addValidateCommand(program: Command, io: CommandIo, setExitCode: (code: ExitCode) => void): void {
  program
    .command("validate")
    .description("check the project's files and show every problem")
    .addOption(new Option("--format <format>", "how to print them").choices(REPORT_FORMATS).default("text"))
    .option("--json", "the same as --format json")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--no-types", "don't type-check the handlers")
    .action(async (options: ValidateOptions) => {
      const root = projectRoot(io, options.dir);
      const { files, problems } = await validateFolder(root, { types: options.types, environment: io.env });
      const format = options.json === true ? "json" : options.format;
      io.out(formatReport(problems, format, { files, colour: io.colour, version: VERSION }));
      setExitCode(hasErrors(problems) ? EXIT.failed : EXIT.done);
    });
}

/** Checks a project's folder as `turno validate` does. */
export async function validateFolder(
  root: string,
  options: { readonly types: boolean; readonly environment: CommandIo["env"] },
): Promise<LoadedProject & { readonly files: ReadonlyMap<string, Uint8Array> }> {
  let files: ReadonlyMap<string, Uint8Array>;
  try {
    files = await readProjectFiles(root);
  } catch (error) {
    return { files: new Map(), state: null, project: null, problems: [asProblem(error, "TURNO_PROJECT_INVALID")] };
  }
  const loaded = loadBy(root, options.environment)(files);
  const types =
    options.types && loaded.state !== null
      ? await checkTypes(root, loaded.state).catch((error: unknown) => [asProblem(error, "TURNO_HANDLER_TYPES")])
      : [];
  return { ...loaded, files, problems: sortProblems([...loaded.problems, ...types]) };
}

/** Problems of the handlers' types; none where the project has no TypeScript. */
async function checkTypes(root: string, state: NonNullable<LoadedProject["state"]>): Promise<readonly Problem[]> {
  const handlers = new Set<string>();
  for (const object of state.objects) {
    if (object.kind !== "Job" || !/\.m?ts$/.test(object.spec.handler)) continue;
    handlers.add(`${state.project.spec.handlers}/${object.spec.handler}`);
  }
  const found = await typeCheckHandlers(root, [...handlers].sort());
  return (found ?? []).map(({ file, line, column, message }) => ({
    code: "TURNO_HANDLER_TYPES",
    severity: "error",
    file,
    line,
    column,
    path: "",
    message,
    hint: null,
  }));
}

/** What the reader or the compiler throws, as a problem of the project's file. */
function asProblem(error: unknown, fallback: ErrorCode): Problem {
  const coded = error instanceof TurnoError ? error : null;
  return {
    code: coded?.code ?? fallback,
    severity: "error",
    file: coded?.position?.file ?? PROJECT_FILE,
    line: coded?.position?.line ?? 1,
    column: coded?.position?.column ?? 1,
    path: "",
    message: describeError(error),
    hint: coded?.hint ?? null,
  };
}
