import { stat, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { simpleGit } from "simple-git";
import { describeError, TurnoError } from "../core/errors.ts";

const GIT_TIMEOUT_MS = 60_000;

/**
 * Writes a project's files as a commit of its repository has them into an empty folder. The repository, its index and
 * its work tree stay as they are. Installed packages are those of the project: handlers are bundled with them.
 */
export async function checkOutCommit(request: {
  /** The project's folder, anywhere in a work tree. */
  readonly project: string;
  /** A branch, a tag or a commit. */
  readonly ref: string;
  readonly folder: string;
}): Promise<void> {
  const { project, ref, folder } = request;
  const open = (baseDir: string) =>
    simpleGit({
      baseDir,
      timeout: { block: GIT_TIMEOUT_MS },
      maxConcurrentProcesses: 1,
      allowEnvironment: ["GIT_INDEX_FILE"],
    });
  const git = open(project);
  try {
    const commit = (await git.raw(["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`])).trim();
    const prefix = (await git.raw(["rev-parse", "--show-prefix"])).trim();
    if (!/^[0-9a-f]{40,64}$/.test(commit)) throw new Error("there is no such commit");
    // From the top: below it, git would write that part of the index alone.
    const top = (await git.raw(["rev-parse", "--show-toplevel"])).replace(/\r?\n$/, "");
    const work = open(top).env({ ...ownVariables(), GIT_INDEX_FILE: join(folder, ".turno-index") });
    // The project's part of the tree only, so that its files lie at the top of the folder.
    await work.raw(["read-tree", prefix === "" ? `${commit}^{tree}` : `${commit}:${prefix.replace(/\/$/, "")}`]);
    await work.raw(["checkout-index", "--all", "--quiet", `--prefix=${folder}/`]);
  } catch (error) {
    throw new TurnoError(
      "TURNO_PROJECT_UNREADABLE",
      `expected the project's files of git:${ref} to compare with, found that git cannot give them: ${describeError(error).trim()}`,
      { cause: error, hint: "name a branch, tag or commit that git rev-parse knows here, with the project in it" },
    );
  }
  await linkPackages(project, folder);
}

/** What git needs to run: with an index of its own it gets no other variable of the process. */
function ownVariables(): Record<string, string> {
  const names = ["PATH", "Path", "HOME", "USERPROFILE", "SystemRoot", "TMPDIR", "TEMP"];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

async function linkPackages(project: string, folder: string): Promise<void> {
  for (let place = project; ; place = dirname(place)) {
    const packages = join(place, "node_modules");
    const found = await stat(packages).catch(() => null);
    if (found?.isDirectory() === true) {
      await symlink(packages, join(folder, "node_modules"), "junction").catch(() => {});
      return;
    }
    if (dirname(place) === place) return;
  }
}
