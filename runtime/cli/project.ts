import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { readProjectFiles } from "../adapters/files/read-project.ts";
import { COMMAND_HANDLER } from "../adapters/handlers/command.ts";
import { COMMAND_SETTINGS_SCHEMA } from "../adapters/handlers/command-settings.ts";
import { type LoadedProject, loadProject, PROJECT_FILE } from "../config/load-project.ts";
import type { ProjectSpec, RuntimeSettings } from "../config/objects.ts";
import { hasErrors, type Problem } from "../config/problems.ts";
import { resolveRuntimeSettings } from "../config/runtime-settings.ts";
import { TurnoError } from "../core/errors.ts";
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
  /** Problems of turno.yaml itself; then the settings are the defaults. */
  readonly problems: readonly Problem[];
}

const DEFAULT_PROJECT = "apiVersion: turno/v1\nkind: Project\nmetadata: { name: turno }\nspec: {}\n";

export interface OpenProjectOptions {
  readonly dir: string | undefined;
  readonly data?: string | undefined;
  /** For roles on machines without the files: the defaults and the environment decide. */
  readonly filesOptional?: boolean;
}

/** Reads turno.yaml of a folder. Throws TURNO_PROJECT_MISSING, and what the environment's settings have wrong. */
export async function openProject(io: CommandIo, options: OpenProjectOptions): Promise<Project> {
  const root = resolve(io.cwd, options.dir ?? ".");
  const text = readProjectText(root, options.filesOptional === true);
  const own = loadProject(new Map([[PROJECT_FILE, text]]));
  const spec = own.project?.spec ?? defaultSpec();
  return {
    paths: projectPaths(root, options.data ?? null),
    settings: resolveRuntimeSettings(spec, io.env, (path) => readFileSync(resolve(root, path), "utf8").trimEnd()),
    load: (files) =>
      loadProject(files, {
        handlerExists: (path) => existsSync(join(root, path)),
        builtinSettings: new Map([[COMMAND_HANDLER, COMMAND_SETTINGS_SCHEMA]]),
        ...(io.env.TURNO_RUNTIME_SAMPLES === undefined ? {} : { samples: io.env.TURNO_RUNTIME_SAMPLES === "true" }),
      }),
    problems: hasErrors(own.problems) ? own.problems : [],
  };
}

/** All of the project's files, and what they declare. */
export async function loadWholeProject(project: Project): Promise<LoadedProject> {
  return project.load(await readProjectFiles(project.paths.root));
}

function readProjectText(root: string, optional: boolean): string {
  const path = join(root, PROJECT_FILE);
  if (existsSync(path)) return readFileSync(path, "utf8");
  if (optional) return DEFAULT_PROJECT;
  throw new TurnoError("TURNO_PROJECT_MISSING", `expected a ${PROJECT_FILE} in ${root}, found none`, {
    hint: "run turno init to make a project, or name its folder with --dir",
  });
}

function defaultSpec(): ProjectSpec {
  const { state } = loadProject(new Map([[PROJECT_FILE, DEFAULT_PROJECT]]));
  if (state === null) throw new TurnoError("TURNO_ASSERTION_FAILED", "the default project does not load");
  return state.project.spec;
}
