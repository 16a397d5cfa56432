import { createHash } from "node:crypto";
import { join } from "node:path";
import { TurnoError } from "../../core/errors.ts";
import { compileGlobs } from "../../core/glob.ts";
import type { Logger } from "../../core/logger.ts";
import { RULES_FILE } from "../../core/project-files.ts";
import type { ProjectSnapshot, ProjectSource, ProjectWatch } from "../../protocol/ports/revisions.ts";
import type { GitAccess } from "./hardened-git.ts";
import { readTree, type TreeRules } from "./project-tree.ts";
import { type CommitFacts, openRepository } from "./repository.ts";
import { openTreeFolder } from "./tree-folder.ts";

export interface GitSourceOptions {
  readonly access: GitAccess;
  readonly ref: string;
  /** Folder of the repository; null: its top. */
  readonly path: string | null;
  readonly intervalMs: number;
  readonly nonFastForward: "allow" | "hold";
  /** File with allowed signers; null: every commit is taken. */
  readonly signers: string | null;
  /** A folder of this source's own, for the repository and the files of its tree. */
  readonly folder: string;
  /** Folder of installed packages; null: none. */
  readonly packages: string | null;
  /** How a project in a folder is read. */
  readonly project: {
    readonly readFiles: (root: string) => Promise<ReadonlyMap<string, Uint8Array>>;
    readonly readLayout: (projectFile: string) => { readonly include: readonly string[]; readonly handlers: string };
    readonly isLitter: (name: string) => boolean;
  };
  readonly logger: Logger;
}

/** Looks are this much later at random, so that many processes don't look at once. */
const JITTER = 0.1;
/** While the remote does not answer, the waits double up to this, or to the interval where that is longer. */
const LONGEST_WAIT_MS = 300_000;
const SHORTEST_TICK_MS = 50;
const LONGEST_TICK_MS = 30_000;

/** Name of a git source's identity. */
export const GIT_SOURCE = "git";

/** Where the files of the tree lie, for bundling. */
export function treeRoot(folder: string): string {
  return join(folder, "tree");
}

/** What a look led to: kept until the next one. */
type Seen =
  | { readonly commit: string; readonly tree: string; readonly snapshot: ProjectSnapshot; readonly error: null }
  | { readonly commit: string; readonly error: TurnoError };

/**
 * A branch of a remote repository, looked at every interval. Its commits are fetched into a bare repository and read
 * without a checkout; the same tree gives the very same files again.
 */
export function openGitSource(options: GitSourceOptions): ProjectSource {
  const { access, ref, path, logger } = options;
  const repository = openRepository(join(options.folder, "repository.git"), access);
  const root = treeRoot(options.folder);
  const folder = openTreeFolder(root, options.packages);
  let seen: Seen | null = null;
  /** Of the last look at the remote; null: it answered. */
  let failure: TurnoError | null = null;
  let failures = 0;
  let nextLookMs = 0;
  let reading: Promise<ProjectSnapshot> | null = null;

  const scheduleNext = (): void => {
    const waitMs =
      failures === 0
        ? options.intervalMs
        : Math.min(options.intervalMs * 2 ** (failures - 1), Math.max(options.intervalMs, LONGEST_WAIT_MS));
    nextLookMs = performance.now() + waitMs * (1 + JITTER * Math.random());
  };

  const look = async (signal: AbortSignal): Promise<void> => {
    const tip = await repository.findRemote(ref, signal);
    if (tip === null) {
      throw new TurnoError("TURNO_SOURCE_REFUSED", `expected ${ref} in ${access.url}, found no such branch`, {
        hint: "check spec.source.git.ref; what is in force stays",
      });
    }
    if (seen?.commit === tip) return;
    const commit = await repository.fetch(ref, signal);
    if (seen?.commit === commit) return;
    try {
      seen = await take(commit, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof TurnoError)) throw error;
      seen = { commit, error };
    }
  };

  const take = async (commit: string, signal: AbortSignal): Promise<Seen> => {
    if (options.signers !== null) await repository.verify(commit, options.signers, signal);
    const facts = await repository.readCommit(commit, signal);
    const tree = await repository.findTree(commit, path, signal);
    if (tree === null) throw missing(`the folder ${path ?? "."}`, commit);
    if (seen !== null && seen.error === null && seen.tree === tree) {
      return { commit, tree, snapshot: { ...seen.snapshot, ...stampOf(facts) }, error: null };
    }
    const files = await readTree({ repository, tree, rulesOf: (own) => rulesOf(own, options), signal });
    if (!files.some((file) => file.path === "turno.yaml")) throw missing("turno.yaml", commit);
    await folder.update(files, repository, signal);
    const read = await options.project.readFiles(root);
    const sources = files.filter((file) => !read.has(file.path)).map((file) => `${file.path}\0${file.id}\0`);
    const snapshot: ProjectSnapshot = {
      files: read,
      fingerprint: tree,
      handlersFingerprint: createHash("sha256").update(sources.join("")).digest("hex"),
      newestWriteAt: null,
      ...stampOf(facts),
    };
    return { commit, tree, snapshot, error: null };
  };

  const missing = (what: string, commit: string) =>
    new TurnoError(
      "TURNO_PROJECT_MISSING",
      `expected ${what} in commit ${commit.slice(0, 12)}${path === null ? "" : ` below ${path}`}, found none`,
      { hint: "check spec.source.git.path; what is in force stays" },
    );

  const readOnce = async (signal: AbortSignal): Promise<ProjectSnapshot> => {
    if (performance.now() >= nextLookMs) {
      try {
        await look(signal);
        failure = null;
        failures = 0;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof TurnoError)) throw error;
        failure = error;
        failures += 1;
      } finally {
        scheduleNext();
      }
    }
    const error = failure ?? seen?.error ?? null;
    if (error !== null) throw error;
    if (seen === null || seen.error !== null) throw new TurnoError("TURNO_ASSERTION_FAILED", "nothing was read");
    return seen.snapshot;
  };

  return {
    identity: { name: GIT_SOURCE, origin: path === null ? access.url : `${access.url}//${path}` },
    read(signal) {
      // One at a time: whoever asks meanwhile gets the same answer.
      reading ??= readOnce(signal).finally(() => {
        reading = null;
      });
      return reading;
    },
    async isCurrent() {
      return true;
    },
    addInputs: () => false,
    expire() {
      nextLookMs = 0;
    },
    async judgeSuccession(inForce, signal) {
      const commit = seen?.commit ?? null;
      if (commit === null || inForce.commit === null || inForce.commit === commit) return null;
      const tip = await repository.findRemote(ref, signal);
      if (tip !== commit) {
        nextLookMs = 0;
        return new TurnoError(
          "TURNO_SOURCE_STALE",
          `expected ${commit.slice(0, 12)} to be the newest commit of ${ref}, found another one by now`,
          {
            hint: "the next look takes it",
          },
        );
      }
      if (options.nonFastForward === "allow") return null;
      if (await repository.isAncestor({ older: inForce.commit, newer: commit, ref, signal })) return null;
      logger.debug("the history of the source was rewritten", { from: inForce.commit, to: commit });
      return new TurnoError(
        "TURNO_SOURCE_REWRITTEN",
        `expected commit ${commit.slice(0, 12)} of ${ref} to follow ${inForce.commit.slice(0, 12)}, which is in force, found a rewritten history`,
        { hint: "if that is meant, run turno sync --confirm; nonFastForward: hold keeps what is in force until then" },
      );
    },
    async watch(onChange) {
      return watchInterval({ onChange, waitMs: () => nextLookMs - performance.now(), isBusy: () => reading !== null });
    },
  };
}

function stampOf({ commit, author, committedAt, message, confirms }: CommitFacts) {
  return { provenance: { commit, baseCommit: null, author, committedAt, message }, confirms };
}

function rulesOf(projectFile: Buffer | null, { project }: GitSourceOptions): TreeRules {
  const { include, handlers } = project.readLayout(projectFile?.toString("utf8") ?? "");
  const globs = compileGlobs(include);
  const own = ["turno.yaml", RULES_FILE];
  const goals = [...globs.bases, handlers, ...own];
  return {
    matters: (path) => own.includes(path) || globs.matches(path) || path.startsWith(`${handlers}/`),
    leadsTo: (path) => goals.some((goal) => goal === path || goal.startsWith(`${path}/`)),
    isLitter: project.isLitter,
  };
}

function watchInterval(request: {
  readonly onChange: () => void;
  readonly waitMs: () => number;
  readonly isBusy: () => boolean;
}): ProjectWatch {
  let timer: NodeJS.Timeout | null = null;
  const tick = (): void => {
    if (request.waitMs() <= 0 && !request.isBusy()) request.onChange();
    timer = setTimeout(tick, Math.min(LONGEST_TICK_MS, Math.max(SHORTEST_TICK_MS, request.waitMs())));
  };
  tick();
  return {
    async close() {
      if (timer !== null) clearTimeout(timer);
    },
  };
}
