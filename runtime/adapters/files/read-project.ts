import { constants, type Dirent } from "node:fs";
import { type FileHandle, open, readdir, realpath, stat } from "node:fs/promises";
import { join, posix, relative, resolve, sep } from "node:path";
import { describeError, TurnoError } from "../../core/errors.ts";
import { compileGlobs } from "../../core/glob.ts";
import { RULES_FILE } from "../../core/project-files.ts";
import { isLitter } from "./litter.ts";
import { findFileReferences, type ProjectLayout, readLayout } from "./project-layout.ts";

/** Where the reader gives up; the YAML limits of the language are below these and reported by validation. */
export const READ_LIMITS = {
  files: 10_000,
  fileBytes: 4 * 1024 * 1024,
  totalBytes: 64 * 1024 * 1024,
  depth: 32,
} as const;

/** What documents refer to: payload schemas and calendars. */
const REFERRED_FILE = /\.(json|ya?ml|ics)$/i;
const READ_TRIES = 3;

/** The project's files by path below the root, and what turno.yaml says about where they lie. */
export interface ProjectFiles {
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly layout: ProjectLayout;
  /** The root with symbolic links resolved, as it was for this read. */
  readonly realRoot: string;
}

/**
 * Reads turno.yaml, the files its includes match, the schemas they refer to and turno.rules.yaml; keys are paths below the root with
 * forward slashes, sorted. Throws TURNO_PROJECT_MISSING, TURNO_PROJECT_UNREADABLE or TURNO_PROJECT_INVALID: what
 * cannot be read is never taken for absent.
 */
export async function readProjectFiles(root: string): Promise<ReadonlyMap<string, Uint8Array>> {
  return (await readProject(root)).files;
}

/** As {@link readProjectFiles}, with the layout and the resolved root. */
export async function readProject(root: string, readFile = readStableFile): Promise<ProjectFiles> {
  const realRoot = await resolveRoot(root);
  const reader = openReader(realRoot, readFile);
  const project = await reader.read("turno.yaml");
  if (project === null) throw projectMissing(root);
  const layout = readLayout(new TextDecoder().decode(project));
  const included = compileGlobs(layout.include);
  for (const base of included.bases) {
    for (const path of await listFiles(realRoot, base)) if (included.matches(path)) await reader.read(path);
  }
  await readReferences(reader);
  await reader.read(RULES_FILE);
  const files = new Map([...reader.files].sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0)));
  return { files, layout, realRoot };
}

/**
 * Paths of the regular files below a folder of the project, litter left out, links inside the project followed once.
 * A folder that is not there has none. Linked folders outside the project are refused, or left out on request.
 */
export async function listFiles(
  realRoot: string,
  folder: string,
  outsideLinks: "refuse" | "skip" = "refuse",
): Promise<readonly string[]> {
  const found: string[] = [];
  const visited = new Set<string>();
  const walk = async (path: string, depth: number): Promise<void> => {
    const realFolder = await realpathInside(realRoot, path);
    if (realFolder === null || visited.has(realFolder) || depth > READ_LIMITS.depth) return;
    visited.add(realFolder);
    for (const entry of await readEntries(realFolder, path)) {
      if (isLitter(entry.name)) continue;
      const child = path === "" ? entry.name : `${path}/${entry.name}`;
      const kind = entry.isSymbolicLink() ? await kindBehindLink(realRoot, child) : kindOf(entry);
      if (kind === "outside" && outsideLinks === "refuse") await realpathInside(realRoot, child);
      if (kind === "folder") await walk(child, depth + 1);
      else if (kind === "file") found.push(child);
      if (found.length > READ_LIMITS.files) throw tooMuch(`${READ_LIMITS.files} files below "${folder || "."}"`);
    }
  };
  await walk(folder, 0);
  return found.sort();
}

/** The bytes of one file that did not change while it was read; null when it is not there. */
export async function readStableFile(path: string): Promise<Uint8Array | null> {
  for (let tries = 1; ; tries++) {
    let handle: FileHandle;
    try {
      // Non-blocking, so that a named pipe in the folder cannot hang the reader.
      handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    } catch (error) {
      if (isAbsent(error)) return null;
      throw unreadable(path, error);
    }
    try {
      const before = await handle.stat({ bigint: true });
      if (!before.isFile()) return null;
      if (before.size > BigInt(READ_LIMITS.fileBytes))
        throw tooMuch(`${READ_LIMITS.fileBytes / 1024 / 1024} MiB in ${path}`);
      const bytes = await handle.readFile();
      const after = await handle.stat({ bigint: true });
      const same =
        before.size === after.size && before.mtimeNs === after.mtimeNs && BigInt(bytes.length) === after.size;
      if (same) return bytes;
      if (tries === READ_TRIES) throw unreadable(path, "it changes while it is read");
    } catch (error) {
      throw error instanceof TurnoError ? error : unreadable(path, error);
    } finally {
      await handle.close();
    }
  }
}

/** The resolved root; throws TURNO_PROJECT_MISSING when it is not a folder. */
async function resolveRoot(root: string): Promise<string> {
  try {
    const realRoot = await realpath(root);
    if ((await stat(realRoot)).isDirectory()) return realRoot;
  } catch (error) {
    if (!isAbsent(error)) throw unreadable(root, error);
  }
  throw projectMissing(root);
}

interface Reader {
  readonly files: Map<string, Uint8Array>;
  read(path: string): Promise<Uint8Array | null>;
}

function openReader(realRoot: string, readFile: typeof readStableFile): Reader {
  const files = new Map<string, Uint8Array>();
  let total = 0;
  return {
    files,
    async read(path) {
      const known = files.get(path);
      if (known !== undefined) return known;
      const real = await realpathInside(realRoot, path);
      const bytes = real === null ? null : await readFile(real);
      if (bytes === null) return null;
      total += bytes.length;
      if (total > READ_LIMITS.totalBytes) throw tooMuch(`${READ_LIMITS.totalBytes / 1024 / 1024} MiB in all`);
      if (files.size >= READ_LIMITS.files) throw tooMuch(`${READ_LIMITS.files} files`);
      files.set(path, bytes);
      return bytes;
    },
  };
}

/** Follows `$ref` from document to schema to schema; one that is not there is left to validation. */
async function readReferences(reader: Reader): Promise<void> {
  const pending = [...reader.files.keys()];
  const decoder = new TextDecoder();
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    for (const reference of findFileReferences(decoder.decode(reader.files.get(path)))) {
      const target = posix.normalize(posix.join(posix.dirname(path), reference));
      const readable = REFERRED_FILE.test(target) && !target.startsWith("..") && !target.split("/").some(isLitter);
      if (!readable || reader.files.has(target)) continue;
      if ((await reader.read(target)) !== null && !target.endsWith(".ics")) pending.push(target);
    }
  }
}

/** The real path of something below the root; null when it is not there. Throws when a link leads out. */
async function realpathInside(realRoot: string, path: string): Promise<string | null> {
  let real: string;
  try {
    real = await realpath(join(realRoot, path));
  } catch (error) {
    if (isAbsent(error)) return null;
    throw unreadable(path, error);
  }
  if (!isBelow(realRoot, real)) {
    throw new TurnoError(
      "TURNO_PROJECT_UNREADABLE",
      `expected ${path} to lie in the project's folder, found a link to ${real}`,
      { hint: "Copy the file into the project, or take it out of the includes." },
    );
  }
  return real;
}

function isBelow(realRoot: string, real: string): boolean {
  const below = relative(realRoot, real);
  return below !== ".." && !below.startsWith(`..${sep}`) && resolve(realRoot, below) === real;
}

async function readEntries(realFolder: string, path: string): Promise<readonly Dirent[]> {
  try {
    const entries = await readdir(realFolder, { withFileTypes: true });
    return entries.sort((left, right) => (left.name < right.name ? -1 : 1));
  } catch (error) {
    if (isAbsent(error)) return [];
    throw unreadable(path, error);
  }
}

/** A linked file outside the project counts as file: whoever reads it gets the refusal. */
async function kindBehindLink(realRoot: string, path: string): Promise<EntryKind | "outside"> {
  const target = await stat(join(realRoot, path)).catch(() => null);
  if (target === null) return "other";
  const kind = kindOf(target);
  if (kind !== "folder") return kind;
  return isBelow(realRoot, await realpath(join(realRoot, path))) ? kind : "outside";
}

type EntryKind = "file" | "folder" | "other";

function kindOf(entry: { isFile(): boolean; isDirectory(): boolean }): EntryKind {
  return entry.isFile() ? "file" : entry.isDirectory() ? "folder" : "other";
}

function isAbsent(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === "ENOENT" || code === "ENOTDIR";
}

function projectMissing(root: string): TurnoError {
  return new TurnoError("TURNO_PROJECT_MISSING", `expected a turno.yaml in ${root}, found none`, {
    hint: "Run `turno init` to make a project here, or name its folder with --dir.",
  });
}

function unreadable(path: string, cause: unknown): TurnoError {
  return new TurnoError("TURNO_PROJECT_UNREADABLE", `${path} could not be read: ${describeError(cause)}`, { cause });
}

function tooMuch(what: string): TurnoError {
  return new TurnoError(
    "TURNO_PROJECT_UNREADABLE",
    `expected a project within the reader's limits, found more than ${what}`,
    {
      hint: `At most ${READ_LIMITS.files} files of ${READ_LIMITS.fileBytes / 1024 / 1024} MiB are read.`,
    },
  );
}
