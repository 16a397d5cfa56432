import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { readProjectFiles, readStableFile } from "../adapters/files/read-project.ts";
import { COMMAND_HANDLER } from "../adapters/handlers/command.ts";
import { COMMAND_SETTINGS_SCHEMA } from "../adapters/handlers/command-settings.ts";
import { type LoadedProject, loadProject, PROJECT_FILE, salvageRuntime } from "../config/load-project.ts";
import type { RuntimeSettings, SourceSpec } from "../config/objects.ts";
import { hasErrors, type Problem } from "../config/problems.ts";
import { writeRuntime } from "../config/runtime-document.ts";
import { readRuntimeDocument, resolveRuntimeSettings } from "../config/runtime-settings.ts";
import { DEFAULT_STALE_AFTER_MS } from "../config/source-settings.ts";
import { TurnoError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { ProjectSnapshot } from "../protocol/ports/revisions.ts";
import type { CommandIo } from "./io.ts";
import { type ProjectPaths, projectPaths } from "./project-paths.ts";

type Files = ProjectSnapshot["files"];

/** A project's folder with the settings its processes start with. */
export interface Project {
  readonly paths: ProjectPaths;
  /** From turno.yaml and the environment; holds secrets. */
  readonly settings: RuntimeSettings;
  /** Loads files with this project's rules; what plans, applies and validations use. */
  readonly load: (files: Files) => LoadedProject;
  /** Where the files in force come from; null: the folder. */
  readonly source: SourceSpec | null;
  /** turno.yaml has problems, and speaks of a source. */
  readonly mayNameSource: boolean;
  readonly staleAfterMs: number;
  /** There is a turno.yaml. */
  readonly isDeclared: boolean;
  /** Problems of turno.yaml itself. */
  readonly problems: readonly Problem[];
  /** It has settings that cannot be read: those here are the defaults, and no process may run on them. */
  readonly hasUnreadSettings: boolean;
  /** The settings for a child process, without secrets: a file that is being edited does not decide how it runs. */
  readonly handDown: () => string;
}

export interface OpenProjectOptions {
  readonly dir: string | undefined;
  readonly data?: string | undefined;
  /** For roles on machines without the files: the defaults and the environment decide. */
  readonly filesOptional?: boolean;
  /** What the supervisor handed down; then turno.yaml is not read for the settings. */
  readonly handedDown?: string | undefined;
}

/** Reads turno.yaml of a folder. Throws TURNO_PROJECT_MISSING, and what the environment's settings have wrong. */
export async function openProject(io: CommandIo, options: OpenProjectOptions): Promise<Project> {
  const root = projectRoot(io, options.dir);
  const content = await readStableFile(join(root, PROJECT_FILE));
  if (content === null && options.filesOptional !== true) throw projectMissing(root);
  const own = content === null ? null : loadProject(new Map([[PROJECT_FILE, content]]));
  const declared = own?.project?.spec.runtime ?? salvageRuntime(content ?? "");
  const runtime = options.handedDown === undefined ? declared : readHandedDown(options.handedDown);
  const known = runtime ?? salvageRuntime("");
  if (known === null) throw new TurnoError("TURNO_ASSERTION_FAILED", "the default settings are not valid");
  return {
    paths: projectPaths(root, options.data === undefined ? null : resolve(io.cwd, options.data)),
    settings: resolveRuntimeSettings({ runtime: known }, io.env, (path) =>
      readFileSync(resolve(root, path), "utf8").trimEnd(),
    ),
    load: loadBy(root, io.env),
    source: own?.project?.spec.source ?? null,
    mayNameSource: own?.project === null && /\bsource\s*:/.test(new TextDecoder().decode(content ?? undefined)),
    staleAfterMs: own?.project?.spec.sync?.staleAfterMs ?? DEFAULT_STALE_AFTER_MS,
    isDeclared: content !== null,
    problems: own !== null && hasErrors(own.problems) ? own.problems : [],
    hasUnreadSettings: runtime === null,
    handDown: () => JSON.stringify(writeRuntime(known)),
  };
}

/** The folder that a command is about. */
export function projectRoot(io: CommandIo, dir: string | undefined): string {
  return resolve(io.cwd, dir ?? ".");
}

/** What loads a folder's files, for every command in the same way. */
export function loadBy(root: string, environment: CommandIo["env"]): (files: Files) => LoadedProject {
  return (files) =>
    loadProject(files, {
      handlerExists: (path) => statSync(join(root, path), { throwIfNoEntry: false })?.isFile() === true,
      builtinSettings: new Map([[COMMAND_HANDLER, COMMAND_SETTINGS_SCHEMA]]),
      environment,
      today: new Date().toISOString().slice(0, 10),
    });
}

/** All of the project's files, and what they declare. */
export async function loadWholeProject(project: Project): Promise<LoadedProject> {
  return project.load(await readProjectFiles(project.paths.root));
}

/** Throws TURNO_PROJECT_INVALID when turno.yaml has settings that could not be read. */
export function expectSettings(project: Project): void {
  if (!project.hasUnreadSettings) return;
  const [problem] = project.problems;
  const { file = PROJECT_FILE, line = 1, column = 1 } = problem ?? {};
  throw new TurnoError(
    "TURNO_PROJECT_INVALID",
    `the settings in ${PROJECT_FILE} cannot be read: ${problem?.message ?? "the file has problems"}`,
    {
      position: { file, line, column },
      hint: "run turno validate; nothing runs on other settings than the declared ones",
    },
  );
}

export function projectMissing(root: string): TurnoError {
  return new TurnoError("TURNO_PROJECT_MISSING", `expected a ${PROJECT_FILE} in ${root}, found none`, {
    hint: "run turno init to make a project, or name its folder with --dir",
  });
}

function readHandedDown(text: string): RuntimeSettings {
  const runtime = readRuntimeDocument(JSON.parse(text) as Json);
  if (runtime === null) throw new TurnoError("TURNO_USAGE", "expected settings that a supervisor hands down");
  return runtime;
}
