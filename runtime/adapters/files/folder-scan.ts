import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { describeError } from "../../core/errors.ts";
import { compileGlobs } from "../../core/glob.ts";
import { isLitter } from "./litter.ts";
import { listFiles, type ProjectFiles, READ_LIMITS, readProject, readStableFile } from "./read-project.ts";

/** A folder as it was found at one moment: read, or unreadable in one certain way. */
export type FolderScan = ReadScan | { readonly kind: "failed"; readonly fingerprint: string; readonly error: unknown };

export interface ReadScan extends ProjectFiles {
  readonly kind: "read";
  readonly fingerprint: string;
  readonly handlersFingerprint: string;
  /** Path of each file that matters, the handlers' sources among them, and the hash of its content. */
  readonly digests: ReadonlyMap<string, string>;
  readonly newestWriteMs: number;
  /** Device and inode of the root: another one after it was swapped or made again. */
  readonly rootIdentity: string;
}

interface CachedFile {
  readonly signature: string;
  readonly bytes: Uint8Array;
}

/** A file whose status changed this recently may change again within the same tick of the file system's clock. */
const RACY_MS = 2_000;

/** Scans a folder again and again; unchanged files are not read again. `inputs` are asked at each scan. */
export function openFolderScanner(root: string, inputs: () => readonly string[]): () => Promise<FolderScan> {
  let cache = new Map<string, CachedFile>();
  return async () => {
    const fresh = new Map<string, CachedFile>();
    let newestWriteMs = 0;
    const readFile = async (path: string): Promise<Uint8Array | null> => {
      const status = await stat(path, { bigint: true }).catch(() => null);
      const signature =
        status === null ? "" : `${status.dev}:${status.ino}:${status.size}:${status.mtimeNs}:${status.ctimeNs}`;
      const known = cache.get(path);
      const bytes = known !== undefined && known.signature === signature ? known.bytes : await readStableFile(path);
      if (bytes === null || status === null) return bytes;
      newestWriteMs = Math.max(newestWriteMs, Number(status.mtimeMs));
      if (Date.now() - Number(status.ctimeMs) > RACY_MS) fresh.set(path, { signature, bytes });
      return bytes;
    };
    try {
      const project = await readProject(root, readFile);
      const digests = await digestAll({ project, inputs: inputs(), readFile });
      const identity = await stat(project.realRoot, { bigint: true });
      cache = fresh;
      return {
        kind: "read",
        ...project,
        digests,
        fingerprint: hashDigests([...digests]),
        handlersFingerprint: hashDigests([...digests].filter(([path]) => !project.files.has(path))),
        newestWriteMs,
        rootIdentity: `${project.realRoot} ${identity.dev}:${identity.ino}`,
      };
    } catch (error) {
      return { kind: "failed", fingerprint: `failed: ${describeError(error)}`, error };
    }
  };
}

/** What is to be watched below the root: whole folders, and single files outside of them. */
export interface WatchedPaths {
  readonly folders: readonly string[];
  readonly files: readonly string[];
}

export function watchedPaths(scan: ReadScan, inputs: readonly string[]): WatchedPaths {
  const folders = [...compileGlobs(scan.layout.include).bases, scan.layout.handlers];
  const files = ["turno.yaml", ...scan.files.keys(), ...inputs];
  return { folders, files: files.filter((file) => !folders.some((folder) => isWithin(file, folder))) };
}

/** A test for paths below the root that matter; the folders on the way to them do as well. */
export function makeRelevance({ folders, files }: WatchedPaths): (path: string) => boolean {
  const single = new Set(files);
  const ways = new Set([...folders, ...files].flatMap(parentFolders));
  return (path) => {
    if (path === "") return true;
    if (path.split("/").some(isLitter)) return false;
    return ways.has(path) || single.has(path) || folders.some((folder) => isWithin(path, folder));
  };
}

/** Whether the path of a file that is gone would have been one of the project's. */
export function wasProjectFile(scan: ReadScan, path: string): boolean {
  if (path.split("/").some(isLitter)) return false;
  return isWithin(path, scan.layout.handlers) || compileGlobs(scan.layout.include).matches(path);
}

async function digestAll(request: {
  readonly project: ProjectFiles;
  readonly inputs: readonly string[];
  readonly readFile: (path: string) => Promise<Uint8Array | null>;
}): Promise<ReadonlyMap<string, string>> {
  const { files, layout, realRoot } = request.project;
  const digests = new Map<string, string>();
  for (const [path, bytes] of files) digests.set(path, hash(bytes));
  const { handlers } = layout;
  const sources = handlers.split("/").includes("..") ? [] : await listFiles(realRoot, handlers, "skip");
  for (const path of [...sources, ...request.inputs]) {
    if (digests.has(path)) continue;
    const status = await stat(resolve(realRoot, path)).catch(() => null);
    if (status === null || !status.isFile()) continue;
    // Data beside handlers may be large; its size and time of change stand for its content.
    if (status.size > READ_LIMITS.fileBytes) digests.set(path, `${status.size} ${status.ctimeMs}`);
    else digests.set(path, hash((await request.readFile(join(realRoot, path))) ?? ""));
  }
  return new Map([...digests].sort(([left], [right]) => (left < right ? -1 : 1)));
}

function hashDigests(digests: readonly (readonly [path: string, digest: string])[]): string {
  return hash(digests.map(([path, digest]) => `${path}\0${digest}\0`).join(""));
}

function isWithin(path: string, folder: string): boolean {
  return folder === "" || path === folder || path.startsWith(`${folder}/`);
}

function parentFolders(path: string): readonly string[] {
  const segments = path.split("/");
  return segments.map((_, index) => segments.slice(0, index + 1).join("/"));
}

function hash(content: Uint8Array | string): string {
  return createHash("sha256").update(content).digest("hex");
}
