import { randomUUID } from "node:crypto";
import { readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import type { Command } from "commander";
import { readProjectFiles } from "../../adapters/files/read-project.ts";
import { formatYaml } from "../../config/format-yaml.ts";
import { formatReport } from "../../config/report.ts";
import { describeError, TurnoError } from "../../core/errors.ts";
import { VERSION } from "../../version.ts";
import { type CommandIo, EXIT, type ExitCode } from "../io.ts";
import { projectRoot } from "../project.ts";

interface FmtOptions {
  readonly check?: boolean;
  readonly dir?: string;
}

const YAML_FILE = /\.ya?ml$/i;

/** `turno fmt`: writes the project's YAML, or the files named, in one way; `--check` only tells, with exit 1. */
export function addFmtCommand(program: Command, io: CommandIo, setExitCode: (code: ExitCode) => void): void {
  program
    .command("fmt")
    .description("write the project's YAML in one way; comments stay, and what it says")
    .argument("[files...]", "only these (default: turno.yaml and what it includes)")
    .option("--check", "write nothing; name the files that would change, and exit with 1 when there are any")
    .option("--dir <folder>", "the project's folder (default: here)")
    .action(async (names: readonly string[], options: FmtOptions) => {
      const files = names.length > 0 ? await readNamed(io, names) : await readOwn(io, options.dir);
      let failed = false;
      for (const { path, shown, content } of files) {
        const formatted = formatYaml(shown, content);
        if ("problems" in formatted) {
          failed = true;
          const sources = new Map([[shown, content]]);
          io.err(formatReport(formatted.problems, "text", { files: sources, colour: io.colour, version: VERSION }));
          continue;
        }
        if (formatted.text === new TextDecoder("utf-8", { ignoreBOM: true }).decode(content)) continue;
        io.out(`${shown}\n`);
        if (options.check === true) failed = true;
        else await replace(path, content, formatted.text);
      }
      setExitCode(failed ? EXIT.failed : EXIT.done);
    });
}

interface FileToFormat {
  readonly path: string;
  /** As the user knows it. */
  readonly shown: string;
  readonly content: Uint8Array;
}

async function readOwn(io: CommandIo, dir: string | undefined): Promise<readonly FileToFormat[]> {
  const root = projectRoot(io, dir);
  const files = await readProjectFiles(root);
  return [...files]
    .filter(([path]) => YAML_FILE.test(path))
    .map(([path, content]) => ({ path: join(root, path), shown: path, content }));
}

async function readNamed(io: CommandIo, names: readonly string[]): Promise<readonly FileToFormat[]> {
  return Promise.all(
    [...new Set(names)].map(async (name) => {
      const path = resolve(io.cwd, name);
      if (!YAML_FILE.test(name)) {
        throw new TurnoError("TURNO_USAGE", `expected files that end with .yaml or .yml, found "${name}"`);
      }
      const content = await readFile(path).catch((error: unknown) => {
        throw new TurnoError("TURNO_PROJECT_UNREADABLE", `${name} cannot be read: ${describeError(error)}`, {
          cause: error,
          hint: "name a file of the project",
        });
      });
      return { path, shown: relative(io.cwd, path).replaceAll(sep, "/"), content };
    }),
  );
}

/** All of it or nothing, with its mode; behind a symbolic link the file itself. What was edited meanwhile is left. */
async function replace(path: string, read: Uint8Array, text: string): Promise<void> {
  const file = await realpath(path);
  const draft = join(dirname(file), `.${randomUUID()}.tmp`);
  try {
    await writeFile(draft, text, { mode: (await stat(file)).mode, flag: "wx" });
    if (Buffer.compare(await readFile(file), read) !== 0) {
      throw new Error("it was changed meanwhile; run turno fmt again");
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw new TurnoError("TURNO_PROJECT_UNWRITABLE", `${path} cannot be written: ${describeError(error)}`, {
      cause: error,
      hint: "nothing of it was changed",
    });
  }
}
