import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, parse, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { HandlerProblem } from "./bundle.ts";

const TIMEOUT_MS = 120_000;
const DIAGNOSTIC = /^(.+)\((\d+),(\d+)\): error (TS\d+: .*)$/;
/** Used where a project has no tsconfig.json. */
const DEFAULT_OPTIONS = {
  target: "es2023",
  module: "nodenext",
  moduleResolution: "nodenext",
  strict: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
};

/**
 * Type-checks handler files (paths relative to the root) with the project's own TypeScript and tsconfig.json. Null
 * when the project has no TypeScript. Throws TURNO_HANDLER_TYPES when the compiler itself does not run.
 */
export async function typeCheckHandlers(
  root: string,
  entries: readonly string[],
): Promise<readonly HandlerProblem[] | null> {
  const compiler = await findCompiler(root);
  if (compiler === null) return null;
  if (entries.length === 0) return [];
  const realRoot = await realpath(root);
  const folder = await makeFolder(realRoot);
  try {
    const config = join(folder, "tsconfig.json");
    await writeFile(config, JSON.stringify(compilerConfig(realRoot, folder, entries)));
    return parseDiagnostics(realRoot, await runCompiler(compiler, config, realRoot));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Below the project, so that its @types are found from here; elsewhere when it cannot be written to. */
async function makeFolder(realRoot: string): Promise<string> {
  try {
    await mkdir(join(realRoot, ".turno"), { recursive: true, mode: 0o700 });
    return await mkdtemp(join(realRoot, ".turno", "types-"));
  } catch {
    return mkdtemp(join(await realpath(tmpdir()), "turno-types-"));
  }
}

async function findCompiler(root: string): Promise<string | null> {
  let packageFile: string;
  try {
    packageFile = createRequire(join(resolve(root), "noop.js")).resolve("typescript/package.json");
  } catch {
    return null;
  }
  const { bin } = JSON.parse(await readFile(packageFile, "utf8")) as { bin?: { tsc?: string } };
  return bin?.tsc === undefined ? null : join(dirname(packageFile), bin.tsc);
}

function compilerConfig(root: string, folder: string, entries: readonly string[]): object {
  const own = join(root, "tsconfig.json");
  const files = entries.map((entry) => resolve(root, entry));
  const always = {
    noEmit: true,
    incremental: false,
    composite: false,
    rootDir: parse(root).root,
    tsBuildInfoFile: null,
    ...(folder.startsWith(root + sep) ? {} : { typeRoots: [join(root, "node_modules", "@types")] }),
  };
  if (existsSync(own)) return { extends: own, compilerOptions: always, files, include: [] };
  // "turno" itself, for projects that run it without having it installed beside them.
  const turno = fileURLToPath(new URL("../../handler", import.meta.url));
  const types = [`${turno}.d.ts`, `${turno}.ts`].find(existsSync);
  const paths = types === undefined ? {} : { paths: { turno: [types] } };
  return { compilerOptions: { ...DEFAULT_OPTIONS, ...paths, ...always }, files };
}

function runCompiler(compiler: string, config: string, cwd: string): Promise<string> {
  return new Promise((done, failed) => {
    const parameters = [compiler, "--project", config, "--pretty", "false"];
    const options = { cwd, timeout: TIMEOUT_MS, maxBuffer: 64 * 1024 * 1024 };
    execFile(process.execPath, parameters, options, (error, stdout, stderr) => {
      // Problems in the files are exit codes 1 and 2 with diagnostics on standard output.
      if (error === null || /error TS\d+/.test(stdout)) return done(stdout);
      const found = `${stdout}${stderr}`.trim() || describeError(error);
      failed(new TurnoError("TURNO_HANDLER_TYPES", `the project's TypeScript could not run: ${found.slice(0, 1000)}`));
    });
  });
}

function parseDiagnostics(root: string, output: string): readonly HandlerProblem[] {
  const problems: HandlerProblem[] = [];
  for (const line of output.split(/\r?\n/)) {
    const [, file, row, column, message] = DIAGNOSTIC.exec(line) ?? [];
    const last = problems.at(-1);
    if (file !== undefined && message !== undefined) {
      problems.push({ file: below(root, file), line: Number(row), column: Number(column), message });
    } else if (line.startsWith("error TS")) {
      problems.push({ file: "tsconfig.json", line: 1, column: 1, message: line.slice("error ".length) });
    } else if (line.startsWith("  ") && last !== undefined) {
      problems[problems.length - 1] = { ...last, message: `${last.message}\n${line}` };
    }
  }
  return problems;
}

function below(root: string, file: string): string {
  const path = relative(root, resolve(root, file));
  return sep === "/" ? path : path.replaceAll(sep, "/");
}
