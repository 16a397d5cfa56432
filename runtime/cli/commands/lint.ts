import { type Command, Option } from "commander";
import { readProjectFiles } from "../../adapters/files/read-project.ts";
import { type LintReport, lintProject } from "../../config/lint-project.ts";
import { formatReport, REPORT_FORMATS, type ReportFormat } from "../../config/report.ts";
import { TurnoError } from "../../core/errors.ts";
import { parseInstant } from "../../time/next-fire.ts";
import { VERSION } from "../../version.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { loadBy, projectRoot } from "../project.ts";
import { usage } from "../usage.ts";

interface LintOptions {
  readonly format: ReportFormat;
  readonly json?: boolean;
  readonly dir?: string;
  readonly from?: string;
  readonly pileUp: string;
}

const DEFAULT_PILE_UP = "5";

/** `turno lint`: what schedules probably do not mean; exit 1 when there is anything that the files don't silence. */
export function addLintCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  now: () => Date,
): void {
  program
    .command("lint")
    .description("show what schedules say and probably do not mean")
    .addOption(new Option("--format <format>", "how to print it").choices(REPORT_FORMATS).default("text"))
    .option("--json", "the same as --format json")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--from <instant>", "look at fires after this instant (default: now)")
    .option("--pile-up <n>", "schedules at one instant from which on it is a pile-up", DEFAULT_PILE_UP)
    .action(async (options: LintOptions) => {
      const format = options.json === true ? "json" : options.format;
      const from = options.from === undefined ? now() : usage("--from", () => parseInstant(options.from ?? ""));
      const pileUp = readPileUp(options.pileUp);
      const root = projectRoot(io, options.dir);
      const files = await readProjectFiles(root);
      const { state, problems } = loadBy(root, io.env)(files);
      const print = { files, colour: io.colour, version: VERSION };
      if (state === null) {
        if (format === "text") io.err(formatReport(problems, format, print));
        else io.out(formatReport(problems, format, print));
        setExitCode(EXIT.failed);
        return;
      }
      const report = lintProject({ state, files, now: from, pileUp });
      if (format === "json") printJson(io, toJson(report));
      else io.out(formatReport(report.problems, format, print));
      if (format === "text" && report.ignored.length > 0) io.out(`${report.ignored.length} silenced in the files\n`);
      setExitCode(report.problems.length > 0 ? EXIT.failed : EXIT.done);
    });
}

function toJson({ problems, ignored }: LintReport) {
  return {
    ok: problems.length === 0,
    problems,
    ignored: ignored.map(({ problem, reason }) => ({ ...problem, reason })),
  };
}

function readPileUp(text: string): number {
  const count = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (count >= 2) return count;
  throw new TurnoError("TURNO_USAGE", `expected --pile-up from 2 to 9999, found "${text}"`);
}
