import { type OpenedSource, openProjectSource } from "../compose/source.ts";
import { PROJECT_FILE } from "../config/load-project.ts";
import { TurnoError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { CommandIo } from "./io.ts";
import { loadBy, type Project } from "./project.ts";

/**
 * Where the project's files come from. Throws TURNO_PROJECT_INVALID while turno.yaml may name a repository and cannot
 * be read: the folder's own files are none of its then.
 */
export async function openSource(io: CommandIo, project: Project, logger: Logger): Promise<OpenedSource> {
  const [problem] = project.problems;
  if (problem !== undefined && project.mayNameSource) {
    throw new TurnoError("TURNO_PROJECT_INVALID", `the source in ${PROJECT_FILE} cannot be read: ${problem.message}`, {
      position: { file: problem.file, line: problem.line, column: problem.column },
      hint: "run turno validate; nothing is applied from another source than the declared one",
    });
  }
  return openProjectSource({
    root: project.paths.root,
    stateDir: project.paths.turno,
    source: project.source,
    environment: io.env,
    loadBy: (root) => loadBy(root, io.env),
    logger,
  });
}
