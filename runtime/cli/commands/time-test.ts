import { readFile } from "node:fs/promises";
import { relative, resolve } from "node:path";
import type { Command } from "commander";
import { readProjectFiles } from "../../adapters/files/read-project.ts";
import { hasErrors } from "../../config/problems.ts";
import { formatReport } from "../../config/report.ts";
import { runTimeTests, type TimeTestResult } from "../../config/run-time-tests.ts";
import { loadTimeTests, TESTS_FILE } from "../../config/time-tests.ts";
import { describeError, TurnoError } from "../../core/errors.ts";
import { printable } from "../../core/printable.ts";
import { instantText } from "../../time/fire-set.ts";
import { parseInstant } from "../../time/next-fire.ts";
import { VERSION } from "../../version.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { loadBy, projectRoot } from "../project.ts";
import { usage } from "../usage.ts";

interface TestOptions {
  readonly dir?: string;
  readonly file?: string;
  readonly from?: string;
  readonly json?: boolean;
}

/** `turno test`: whether the files' schedules hold to what turno.tests.yaml expects; exit 1 when one does not. */
export function addTestCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  now: () => Date,
): void {
  program
    .command("test")
    .description(`check what ${TESTS_FILE} expects of the schedules' fires`)
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--file <file>", `another file of expectations than ${TESTS_FILE}`)
    .option("--from <instant>", "where the time begins, for expectations that do not say it (default: now)")
    .option("--json", "print JSON")
    .action(async (options: TestOptions) => {
      const from = options.from === undefined ? now() : usage("--from", () => parseInstant(options.from ?? ""));
      const root = projectRoot(io, options.dir);
      const path = options.file === undefined ? resolve(root, TESTS_FILE) : resolve(io.cwd, options.file);
      const content = await readTests(path);
      const name = relative(root, path).replaceAll("\\", "/");
      const loaded = loadTimeTests(name, content);
      const files = await readProjectFiles(root);
      const { state, problems } = loadBy(root, io.env)(files);
      const all = [...problems.filter(({ severity }) => severity === "error"), ...loaded.problems];
      if (state === null || hasErrors(loaded.problems)) {
        io.err(
          formatReport(all, "text", {
            files: new Map([...files, [name, content]]),
            colour: io.colour,
            version: VERSION,
          }),
        );
        setExitCode(EXIT.failed);
        return;
      }
      const results = runTimeTests(loaded.tests, state, from);
      const ok = results.every((result) => result.ok);
      if (options.json === true) printJson(io, { ok, tests: results.map(toJson) });
      else io.out(renderResults(results, io.colour));
      setExitCode(ok ? EXIT.done : EXIT.failed);
    });
}

async function readTests(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    throw new TurnoError("TURNO_PROJECT_UNREADABLE", `expected expectations in ${path}: ${describeError(error)}`, {
      cause: error,
      hint: `write a ${TESTS_FILE}, or name another file with --file`,
    });
  }
}

function toJson({ test, ok, schedules, fires, failures, failureCount, unknown, from, to }: TimeTestResult) {
  const { name, file, line } = test;
  return {
    name,
    ok,
    file,
    line,
    from: instantText(from),
    to: instantText(to),
    schedules,
    fires,
    failureCount,
    failures,
    unknown,
  };
}

function renderResults(results: readonly TimeTestResult[], colour: boolean): string {
  const paint = (code: number, text: string) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text);
  const blocks = results.map((result) => {
    const { test, ok, schedules, fires, failures, failureCount, unknown } = result;
    const mark = ok ? paint(32, "ok  ") : paint(31, "FAIL");
    const looked = `${schedules} ${schedules === 1 ? "schedule" : "schedules"}, ${fires} fires`;
    const more = failureCount - failures.length;
    return [
      `${mark} ${printable(test.name)}  ${paint(2, `(${looked})`)}`,
      ...(ok ? [] : [`     ${printable(`${test.file}:${test.line}`)}`]),
      ...unknown.map((sentence) => `     ${printable(sentence)}`),
      ...failures.map((sentence) => `     ${printable(sentence)}`),
      ...(more > 0 ? [`     … and ${more} more`] : []),
    ].join("\n");
  });
  const failed = results.filter(({ ok }) => !ok).length;
  const sum = failed === 0 ? `${results.length} hold` : `${failed} of ${results.length} do not hold`;
  return `${blocks.join("\n")}\n\n${sum}\n`;
}
