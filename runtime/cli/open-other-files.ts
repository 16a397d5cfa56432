import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { lookOptions } from "../compose.ts";
import { PROJECT_FILE } from "../config/load-project.ts";
import { TurnoError } from "../core/errors.ts";
import { assumeApplied } from "../reconcile/applied-from-files.ts";
import { createLook, type Look } from "../reconcile/look.ts";
import { VERSION } from "../version.ts";
import { checkOutCommit } from "./check-out-commit.ts";
import type { OpenOtherFiles } from "./commands/plan.ts";
import type { CommandIo } from "./io.ts";
import { openProcessLogger } from "./process-logger.ts";
import { loadBy, projectMissing, projectRoot } from "./project.ts";

const GIT_PREFIX = "git:";

/** A project's files and others to compare them with: those of a folder, or of a commit. No database is opened. */
export async function openOtherFiles(
  io: CommandIo,
  { dir, against }: Parameters<OpenOtherFiles>[0],
): ReturnType<OpenOtherFiles> {
  const logger = openProcessLogger(io, { level: "error" });
  const root = projectRoot(io, dir);
  const lookAt = (folder: string) =>
    createLook(lookOptions({ root: folder, loadProject: loadBy(folder, io.env), logger }));
  const other = await openFolder(io, root, against);
  return {
    look: lookAt(root),
    version: VERSION,
    async loadApplied(signal) {
      const look = await lookAt(other.folder)(signal);
      return assumeApplied(expectReady(look, against).desired, new Date());
    },
    close: other.close,
  };
}

/** The folder that a name stands for: itself, or a commit written to a temporary one. */
export async function openFolder(io: CommandIo, root: string, against: string) {
  if (!against.startsWith(GIT_PREFIX)) {
    const folder = resolve(io.cwd, against);
    await expectProject(folder);
    return { folder, close: async () => {} };
  }
  const folder = await mkdtemp(join(tmpdir(), "turno-plan-"));
  const close = () => rm(folder, { recursive: true, force: true });
  try {
    await checkOutCommit({ project: root, ref: against.slice(GIT_PREFIX.length), folder });
    await expectProject(folder);
    return { folder, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function expectProject(folder: string): Promise<void> {
  const found = await stat(join(folder, PROJECT_FILE)).catch(() => null);
  if (found === null || !found.isFile()) throw projectMissing(folder);
}

/** Throws TURNO_PROJECT_INVALID for files with problems. */
export function expectReady(look: Look, against: string): Look & { readonly kind: "ready" } {
  if (look.kind === "ready") return look;
  const errors = look.problems.filter(({ severity }) => severity === "error");
  const [first] = errors;
  const where = first === undefined ? "" : `, the first in ${first.file}:${first.line}: ${first.message}`;
  throw new TurnoError(
    "TURNO_PROJECT_INVALID",
    `expected valid files in ${against} to compare with, found ${errors.length} problems${where}`,
  );
}
