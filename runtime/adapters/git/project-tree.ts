import { posix } from "node:path";
import { TurnoError } from "../../core/errors.ts";
import type { Repository } from "./repository.ts";

/** A regular file of the tree, or a link to one, which stands for its content. */
export interface TreeFile {
  /** Below the project's folder. */
  readonly path: string;
  readonly id: string;
  readonly size: number;
}

/** What the project's files are, as turno.yaml says it. */
export interface TreeRules {
  /** Whether a file decides what is in force: a document, or below the handlers' folder. */
  readonly matters: (path: string) => boolean;
  /** Whether something at this path hides files that matter: a folder on the way to them. */
  readonly leadsTo: (path: string) => boolean;
  /** Names that are never part of a project, and not walked into. */
  readonly isLitter: (name: string) => boolean;
}

/** Above these a repository is refused: a tree of a few kilobytes can unfold into billions of paths. */
export const TREE_LIMITS = {
  entries: 50_000,
  treeBytes: 4 * 1024 * 1024,
  depth: 32,
  files: 10_000,
  fileBytes: 4 * 1024 * 1024,
  totalBytes: 64 * 1024 * 1024,
  linkBytes: 4096,
} as const;

interface TreeEntry {
  readonly path: string;
  readonly kind: "file" | "folder" | "link" | "submodule";
  readonly id: string;
}

/**
 * The files of a tree that a project may be made of, by path; nothing is checked out. Links inside the project stand
 * for the file they name. Throws TURNO_SOURCE_REFUSED, naming the file, for a link that leaves the project, a
 * submodule, a file that is too large, where it matters, and for more than the limits.
 */
export async function readTree(request: {
  readonly repository: Repository;
  readonly tree: string;
  /** Asked once turno.yaml is known; null: there is none. */
  readonly rulesOf: (projectFile: Buffer | null) => TreeRules;
  readonly signal: AbortSignal;
}): Promise<readonly TreeFile[]> {
  const { repository, tree, signal } = request;
  const top = await listTrees([{ path: "", id: tree }], repository, signal);
  const own = top.find(({ path }) => path === "turno.yaml");
  const rules = request.rulesOf(own?.kind === "file" ? await readSmall(own, repository, signal) : null);
  const entries = await walk(top, request, rules);
  const links = await resolveLinks(entries, request, rules);
  for (const entry of entries) {
    if (entry.kind === "submodule" && (rules.matters(entry.path) || rules.leadsTo(entry.path))) {
      throw refused(entry.path, "is a submodule, which is never fetched", "put the files into this repository");
    }
  }
  const files = [...entries.filter(({ kind }) => kind === "file"), ...links];
  const sizes = await repository.measure(
    files.map(({ id }) => id),
    signal,
  );
  return chooseFiles(
    files.map(({ path, id }, index) => ({ path, id, size: sizes[index] ?? 0 })),
    rules,
  );
}

async function walk(
  top: readonly TreeEntry[],
  { repository, signal }: Pick<Parameters<typeof readTree>[0], "repository" | "signal">,
  rules: TreeRules,
): Promise<readonly TreeEntry[]> {
  const isPart = ({ path }: TreeEntry) => !rules.isLitter(posix.basename(path));
  const entries = top.filter(isPart);
  let folders = entries.filter(({ kind }) => kind === "folder");
  for (let depth = 1; folders.length > 0; depth++) {
    if (depth > TREE_LIMITS.depth)
      throw refused(folders[0]?.path ?? "", `lies more than ${TREE_LIMITS.depth} folders deep`);
    const below = (await listTrees(folders, repository, signal)).filter(isPart);
    entries.push(...below);
    if (entries.length > TREE_LIMITS.entries) {
      throw refused(folders[0]?.path ?? "", `and the other folders hold more than ${TREE_LIMITS.entries} entries`);
    }
    folders = below.filter(({ kind }) => kind === "folder");
  }
  return entries;
}

/** The entries of some folders; each tree's size is looked at before it is read. */
async function listTrees(
  folders: readonly { readonly path: string; readonly id: string }[],
  repository: Repository,
  signal: AbortSignal,
): Promise<readonly TreeEntry[]> {
  // A tree that stands in many places is read once, and unfolds within the limit only.
  const ids = [...new Set(folders.map(({ id }) => id))];
  const sizes = await repository.measure(ids, signal);
  const large = sizes.findIndex((size) => size > TREE_LIMITS.treeBytes);
  const named = (id: string | undefined) => folders.find((folder) => folder.id === id)?.path ?? "";
  if (large >= 0) throw refused(named(ids[large]), "is a folder with too many files to be listed");
  const objects = ids.map((id, index) => ({ id, size: sizes[index] ?? 0 }));
  if (objects.reduce((sum, { size }) => sum + size, 0) > TREE_LIMITS.totalBytes) {
    throw refused(named(ids[0]), "and the other folders are too many to be listed");
  }
  const contents = await repository.readObjects(objects, signal);
  const byId = new Map(ids.map((id, index) => [id, contents[index] ?? Buffer.alloc(0)]));
  const entries: TreeEntry[] = [];
  for (const { path, id } of folders) {
    for (const entry of parseTree(byId.get(id) ?? Buffer.alloc(0), id.length / 2)) {
      entries.push({ ...entry, path: path === "" ? entry.path : `${path}/${entry.path}` });
      if (entries.length > TREE_LIMITS.entries) {
        throw refused(path, `and the other folders hold more than ${TREE_LIMITS.entries} entries`);
      }
    }
  }
  return entries;
}

/** git's own form: mode, blank, name, NUL, the id's bytes. */
function parseTree(content: Buffer, idBytes: number): readonly TreeEntry[] {
  const entries: TreeEntry[] = [];
  for (let at = 0; at < content.length; ) {
    const blank = content.indexOf(32, at);
    const nul = content.indexOf(0, blank);
    if (blank < 0 || nul < 0) break;
    const kind = kindOf(content.toString("latin1", at, blank));
    const path = content.toString("utf8", blank + 1, nul);
    const id = content.toString("hex", nul + 1, nul + 1 + idBytes);
    at = nul + 1 + idBytes;
    // Names that lead elsewhere are refused by git itself when it fetches; none of them gets further.
    if (path === "" || path === "." || path === ".." || path.includes("/") || path.includes("\\")) continue;
    entries.push({ path, id, kind });
  }
  return entries;
}

function kindOf(mode: string): TreeEntry["kind"] {
  if (mode === "120000") return "link";
  if (mode === "160000") return "submodule";
  return mode === "40000" || mode === "040000" ? "folder" : "file";
}

/** Links that matter, each with the file it names; others are left out. */
async function resolveLinks(
  entries: readonly TreeEntry[],
  { repository, signal }: Pick<Parameters<typeof readTree>[0], "repository" | "signal">,
  rules: TreeRules,
): Promise<readonly TreeEntry[]> {
  const links = entries.filter(({ kind, path }) => kind === "link" && (rules.matters(path) || rules.leadsTo(path)));
  const files = new Map(entries.flatMap((entry) => (entry.kind === "file" ? [[entry.path, entry] as const] : [])));
  const resolved: TreeEntry[] = [];
  for (const link of links) {
    const target = (await readSmall(link, repository, signal)).toString("utf8");
    const path = posix.normalize(posix.join(posix.dirname(link.path), target));
    const shown = JSON.stringify(target.slice(0, 200));
    if (target.startsWith("/") || path.startsWith("..") || /^[A-Za-z]:|\\/.test(target)) {
      throw refused(link.path, `is a link that leaves the project, to ${shown}`, "put the file itself there");
    }
    const file = files.get(path);
    if (file === undefined) {
      throw refused(link.path, `is a link to ${shown}, which is no file of the project`, "put the file itself there");
    }
    resolved.push({ ...file, path: link.path });
  }
  return resolved;
}

async function readSmall(entry: TreeEntry, repository: Repository, signal: AbortSignal): Promise<Buffer> {
  const limit = entry.kind === "link" ? TREE_LIMITS.linkBytes : TREE_LIMITS.fileBytes;
  const [size = 0] = await repository.measure([entry.id], signal);
  if (size > limit) throw refused(entry.path, `has ${size} bytes, more than the ${limit} that are read`);
  const [content] = await repository.readObjects([{ id: entry.id, size }], signal);
  return content ?? Buffer.alloc(0);
}

/** Files that matter must fit; what lies beside them is taken along while there is room, for handlers that import it. */
function chooseFiles(files: readonly TreeFile[], rules: TreeRules): readonly TreeFile[] {
  const wanted = files.filter(({ path }) => rules.matters(path));
  const others = files.filter(({ path, size }) => !rules.matters(path) && size <= TREE_LIMITS.fileBytes);
  const large = wanted.find(({ size }) => size > TREE_LIMITS.fileBytes);
  if (large !== undefined) {
    throw refused(large.path, `has ${large.size} bytes, more than the ${TREE_LIMITS.fileBytes} that are read`);
  }
  const chosen: TreeFile[] = [];
  let bytes = 0;
  for (const file of [...wanted, ...others.sort((left, right) => left.size - right.size)]) {
    const fits = bytes + file.size <= TREE_LIMITS.totalBytes && chosen.length < TREE_LIMITS.files;
    if (!fits) {
      if (!rules.matters(file.path)) break;
      throw refused(
        file.path,
        `and the other files are more than ${TREE_LIMITS.files}, or larger than ${TREE_LIMITS.totalBytes} bytes together`,
      );
    }
    bytes += file.size;
    chosen.push(file);
  }
  return chosen.sort((left, right) => (left.path < right.path ? -1 : 1));
}

function refused(path: string, what: string, hint?: string): TurnoError {
  return new TurnoError("TURNO_SOURCE_REFUSED", `${path === "" ? "the top folder" : path} ${what}`, {
    position: { file: path, line: 1, column: 1 },
    ...(hint === undefined ? {} : { hint }),
  });
}
