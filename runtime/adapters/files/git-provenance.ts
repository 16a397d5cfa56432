import { simpleGit } from "simple-git";
import { NO_PROVENANCE, type Provenance } from "../../protocol/ports/revisions.ts";

const GIT_TIMEOUT_MS = 5_000;

export interface ProvenanceRequest {
  /** The project's folder, links resolved. */
  readonly root: string;
  /** The project's files, below the root. */
  readonly paths: readonly string[];
  /** Whether a file that git knows and that is gone was one of the project's. */
  readonly wasOurs: (path: string) => boolean;
}

/**
 * The commit the files equal, or the one they stand on when any of them is changed, untracked or ignored. Nothing
 * where git is not installed, the folder is no work tree, or git refuses to answer: silence is no lie.
 */
export async function readProvenance(request: ProvenanceRequest): Promise<Provenance> {
  try {
    const git = simpleGit({ baseDir: request.root, timeout: { block: GIT_TIMEOUT_MS }, maxConcurrentProcesses: 1 });
    const log = await git.raw(["log", "-1", "--format=%H%x00%an%x00%cI%x00%s", "HEAD"]);
    const [commit, author, committedAt, message] = log.trimEnd().split("\0");
    if (commit === undefined || !/^[0-9a-f]{40,64}$/.test(commit)) return NO_PROVENANCE;
    // The status takes no lock: it must never stand in the way of a person's own git command.
    const lines = await git.raw([
      "--no-optional-locks",
      "status",
      "--porcelain=v1",
      "-z",
      "--untracked-files=all",
      "--ignored=matching",
      "--no-renames",
      "--",
      ".",
    ]);
    const prefix = (await git.raw(["rev-parse", "--show-prefix"])).replace(/\r?\n$/, "");
    if (differs(lines, prefix, request)) return { ...NO_PROVENANCE, baseCommit: commit };
    return {
      commit,
      baseCommit: null,
      author: author ?? null,
      committedAt: committedAt === undefined ? null : new Date(committedAt),
      message: message ?? null,
    };
  } catch {
    return NO_PROVENANCE;
  }
}

/** Entries are `XY path`, NUL-ended, from the work tree's top; ignored and untracked folders end with a slash. */
function differs(status: string, prefix: string, request: ProvenanceRequest): boolean {
  const paths = new Set(request.paths);
  return status.split("\0").some((entry) => {
    const path = entry.slice(3);
    if (entry === "" || !path.startsWith(prefix)) return false;
    const below = path.slice(prefix.length);
    if (below === "" || path.endsWith("/")) return request.paths.some((ours) => ours.startsWith(below));
    return paths.has(below) || request.wasOurs(below);
  });
}
