import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { TurnoError } from "../../core/errors.ts";
import { type GitAccess, gitFailure, openGit } from "./hardened-git.ts";

/** What a commit says of itself. */
export interface CommitFacts {
  readonly commit: string;
  readonly author: string;
  readonly committedAt: Date;
  /** First line of its message. */
  readonly message: string;
  /** Values of its `Turno-Confirm` trailers. */
  readonly confirms: readonly string[];
}

export interface Repository {
  /** The commit that a ref of the remote names now; null: there is no such ref. */
  findRemote(ref: string, signal: AbortSignal): Promise<string | null>;
  /** Fetches a ref and gives the commit it names. */
  fetch(ref: string, signal: AbortSignal): Promise<string>;
  readCommit(commit: string, signal: AbortSignal): Promise<CommitFacts>;
  /** Whether a commit leads to another one; null: the history that is here does not tell. */
  isAncestor(request: {
    readonly older: string;
    readonly newer: string;
    readonly ref: string;
    readonly signal: AbortSignal;
  }): Promise<boolean>;
  /** Id of the tree of a folder in a commit; null: there is none. */
  findTree(commit: string, path: string | null, signal: AbortSignal): Promise<string | null>;
  /** Size in bytes by id, in the order given. */
  measure(ids: readonly string[], signal: AbortSignal): Promise<readonly number[]>;
  /** Contents in the order given. */
  readObjects(
    objects: readonly { readonly id: string; readonly size: number }[],
    signal: AbortSignal,
  ): Promise<readonly Buffer[]>;
  /** Throws TURNO_SOURCE_UNSIGNED unless one of the signers has signed the commit. */
  verify(commit: string, signers: string, signal: AbortSignal): Promise<void>;
}

/** A fetch may take this long in all, and this much room. */
const FETCH_MS = 300_000;
const LOCAL_MS = 60_000;
const REPOSITORY_BYTES = 1024 * 1024 * 1024;
const WATCH_MS = 500;
const COMMIT_ID = /^[0-9a-f]{40}([0-9a-f]{24})?$/;
const TIP = "refs/turno/tip";
/** Contents that are asked for at once. */
const BATCH_BYTES = 16 * 1024 * 1024;

/** A bare repository in a folder of its own, which nobody else uses; made anew when it is broken. */
export function openRepository(folder: string, access: GitAccess): Repository {
  const local = (signal: AbortSignal, input?: string) =>
    openGit({
      folder,
      access: null,
      signal: AbortSignal.any([signal, AbortSignal.timeout(LOCAL_MS)]),
      ...(input === undefined ? {} : { input }),
    });
  const remote = (signal: AbortSignal) =>
    openGit({ folder, access, signal: AbortSignal.any([signal, AbortSignal.timeout(FETCH_MS)]) });
  const unreachable = (error: unknown) => gitFailure(`expected an answer of ${access.url}, found none`, error);

  const prepare = async (signal: AbortSignal): Promise<void> => {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const isThere = await stat(join(folder, "HEAD")).catch(() => null);
    if (isThere === null) await local(signal).raw(["init", "--bare", "--quiet", "--template=", "."]);
    await removeLocks(folder);
  };

  const fetchOnce = async (args: readonly string[], ref: string, signal: AbortSignal): Promise<string> => {
    const room = await watchRoom(folder);
    try {
      await remote(AbortSignal.any([signal, room.signal])).raw([
        "fetch",
        "--quiet",
        "--force",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-fetch-head",
        ...args,
        "--end-of-options",
        access.url,
        `+${fullRef(ref)}:${TIP}`,
      ]);
    } catch (error) {
      throw room.signal.aborted ? tooLarge(access.url) : error;
    } finally {
      room.close();
    }
    return resolveTip(signal);
  };

  const resolveTip = async (signal: AbortSignal): Promise<string> => {
    const commit = (await local(signal).raw(["rev-parse", "--verify", "--quiet", `${TIP}^{commit}`])).trim();
    if (!COMMIT_ID.test(commit)) throw new Error("the ref names no commit");
    return commit;
  };

  return {
    async findRemote(ref, signal) {
      await prepare(signal);
      try {
        const answer = await remote(signal).raw(["ls-remote", "--quiet", "--end-of-options", access.url, fullRef(ref)]);
        const lines = answer.split("\n").map((line) => line.split("\t"));
        const found = lines.find(([, name]) => name === fullRef(ref))?.[0] ?? null;
        return found !== null && COMMIT_ID.test(found) ? found : null;
      } catch (error) {
        signal.throwIfAborted();
        throw unreachable(error);
      }
    },

    async fetch(ref, signal) {
      await prepare(signal);
      try {
        return await fetchOnce((await isEmpty(folder)) ? ["--depth=1"] : [], ref, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof TurnoError) throw error;
        // Whatever a killed git or a full disk left behind: a repository made anew has none of it.
        await rm(folder, { recursive: true, force: true });
        await prepare(signal);
        try {
          return await fetchOnce(["--depth=1"], ref, signal);
        } catch (again) {
          signal.throwIfAborted();
          throw again instanceof TurnoError ? again : unreachable(again);
        }
      }
    },

    async readCommit(commit, signal) {
      const format = "--format=%H%x00%an%x00%cI%x00%s%x00%(trailers:key=Turno-Confirm,valueonly,separator=%x2C)";
      const text = await local(signal).raw(["log", "-1", "--no-show-signature", format, "--end-of-options", commit]);
      const [id = "", author = "", committedAt = "", message = "", confirms = ""] = text.trimEnd().split("\0");
      return {
        commit: id,
        author,
        committedAt: new Date(committedAt),
        message,
        confirms: confirms.split(",").map((value) => value.trim().toLowerCase()),
      };
    },

    async isAncestor({ older, newer, ref, signal }) {
      const leads = async () =>
        (await local(signal).raw(["rev-list", "--max-count=1", "--end-of-options", older, `^${newer}`])).trim() === "";
      const isKnown = async () =>
        (await local(signal, `${older}\n`).raw(["cat-file", "--batch-check"])).startsWith(`${older} commit `);
      if ((await isKnown()) && (await leads())) return true;
      const isShallow = (await stat(join(folder, "shallow")).catch(() => null)) !== null;
      if (!isShallow) return false;
      // The history was cut off behind the first commit that was fetched: only the whole of it tells.
      try {
        await fetchOnce(["--unshallow"], ref, signal);
      } catch (error) {
        signal.throwIfAborted();
        throw error instanceof TurnoError ? error : unreachable(error);
      }
      return (await isKnown()) && (await leads());
    },

    async findTree(commit, path, signal) {
      const name = path === null ? `${commit}^{tree}` : `${commit}:${path}`;
      const [line = ""] = (await local(signal, `${name}\n`).raw(["cat-file", "--batch-check"])).split("\n");
      const [id = "", type] = line.split(" ");
      return type === "tree" && COMMIT_ID.test(id) ? id : null;
    },

    async measure(ids, signal) {
      if (ids.length === 0) return [];
      const text = await local(signal, `${ids.join("\n")}\n`).raw([
        "cat-file",
        "--batch-check=%(objectname) %(objectsize)",
      ]);
      return text
        .trimEnd()
        .split("\n")
        .map((line) => Number(line.split(" ")[1]));
    },

    async readObjects(objects, signal) {
      const contents: Buffer[] = [];
      for (let from = 0; from < objects.length; ) {
        let to = from;
        for (let bytes = 0; to < objects.length && (to === from || bytes < BATCH_BYTES); to++) {
          bytes += objects[to]?.size ?? 0;
        }
        const ids = objects.slice(from, to).map(({ id }) => id);
        contents.push(...(await readBatch(ids, signal)));
        from = to;
      }
      return contents;
    },

    async verify(commit, signers, signal) {
      const git = openGit({
        folder,
        access: null,
        signal: AbortSignal.any([signal, AbortSignal.timeout(LOCAL_MS)]),
        signers,
      });
      try {
        await git.raw(["verify-commit", "--end-of-options", commit]);
      } catch (error) {
        signal.throwIfAborted();
        const { message } = gitFailure("git said", error);
        throw new TurnoError(
          "TURNO_SOURCE_UNSIGNED",
          `expected commit ${commit.slice(0, 12)} to be signed by one of the signers, found that it is not; ${message}`,
          { cause: error, hint: "sign it with a key of spec.source.git.verify.signers, or add the key there" },
        );
      }
    },
  };

  async function readBatch(ids: readonly string[], signal: AbortSignal): Promise<readonly Buffer[]> {
    const answer: Buffer = await local(signal, `${ids.join("\n")}\n`).binaryCatFile(["--batch"]);
    const contents: Buffer[] = [];
    for (let at = 0; contents.length < ids.length; ) {
      const end = answer.indexOf(10, at);
      const size = Number(answer.toString("latin1", at, end).split(" ")[2]);
      if (end < 0 || !Number.isInteger(size)) throw new Error("git gave no object where one was expected");
      contents.push(answer.subarray(end + 1, end + 1 + size));
      at = end + 1 + size + 1;
    }
    return contents;
  }
}

/** A branch's name as the ref it is; full names stay. */
export function fullRef(ref: string): string {
  return ref.startsWith("refs/") ? ref : `refs/heads/${ref}`;
}

/** No git runs in the folder now, so every lock in it was left by one that was killed. */
async function removeLocks(folder: string): Promise<void> {
  const names = await readdir(folder);
  const locks = names.filter((name) => name.endsWith(".lock")).map((name) => join(folder, name));
  const refs = (await readdir(join(folder, "refs", "turno")).catch(() => [])).filter((name) => name.endsWith(".lock"));
  for (const path of [...locks, ...refs.map((name) => join(folder, "refs", "turno", name))]) {
    await rm(path, { force: true });
  }
}

async function isEmpty(folder: string): Promise<boolean> {
  return (await stat(join(folder, TIP)).catch(() => null)) === null;
}

/** Aborts once the folder takes more room than a repository may. */
async function watchRoom(folder: string): Promise<{ readonly signal: AbortSignal; close(): void }> {
  const full = new AbortController();
  const timer = setInterval(() => {
    void measureFolder(join(folder, "objects")).then((bytes) => {
      if (bytes > REPOSITORY_BYTES) full.abort();
    });
  }, WATCH_MS);
  return { signal: full.signal, close: () => clearInterval(timer) };
}

async function measureFolder(folder: string): Promise<number> {
  const packs = join(folder, "pack");
  const names = await readdir(packs).catch(() => []);
  const sizes = await Promise.all(names.map((name) => stat(join(packs, name)).catch(() => null)));
  return sizes.reduce((sum, found) => sum + (found?.size ?? 0), 0);
}

function tooLarge(url: string): TurnoError {
  return new TurnoError(
    "TURNO_SOURCE_REFUSED",
    `expected the repository ${url} to take at most ${REPOSITORY_BYTES / 1024 / 1024} MiB, found more`,
    { hint: "keep the declared files in a repository of their own" },
  );
}
