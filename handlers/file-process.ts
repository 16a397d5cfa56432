import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { defineHandler, PermanentError } from "turno";
import { projectRoot } from "./lib/folders.ts";

interface Payload {
  /** Relative to the project. */
  readonly folder: string;
}

interface FileFacts {
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly lines: number;
  /** Bytes of the longest line without its line break, and its number from 1; 0 when the file is empty. */
  readonly longestLine: { readonly line: number; readonly bytes: number };
}

interface Settings {
  readonly exclude?: readonly string[];
  /** Files that the result lists one by one; the totals count all. */
  readonly listed?: number;
}

const NEW_LINE = 0x0a;

/** Reads every file of a folder as a stream: size, SHA-256, lines and the longest line. Progress counts bytes. */
export default defineHandler<Payload>(async ({ folder }, ctx) => {
  const { exclude = ["node_modules", ".git", ".turno"], listed = 200 } = ctx.settings as Settings;
  const root = resolve(projectRoot(), folder);
  if (!isInside(projectRoot(), root)) throw new PermanentError(`expected a folder of the project, found ${folder}`);
  const found = await findFiles(root, new Set(exclude), ctx.signal);
  const totalBytes = found.reduce((sum, { bytes }) => sum + bytes, 0);
  ctx.log.info("folder read", { folder, files: found.length, bytes: totalBytes });

  const files: FileFacts[] = [];
  const vanished: string[] = [];
  let readBytes = 0;
  for (const { path } of found) {
    ctx.signal.throwIfAborted();
    const shown = relative(root, path);
    const onBytes = (bytes: number) => {
      readBytes += bytes;
      return ctx.progress(totalBytes === 0 ? 100 : (readBytes / totalBytes) * 100, shown);
    };
    const facts = await readFacts(path, shown, onBytes, ctx.signal);
    if (facts === null) vanished.push(shown);
    else files.push(facts);
  }
  return {
    folder,
    files: files.length,
    bytes: files.reduce((sum, file) => sum + file.bytes, 0),
    lines: files.reduce((sum, file) => sum + file.lines, 0),
    longestLine: findLongest(files),
    vanished,
    omitted: Math.max(0, files.length - listed),
    listed: files.slice(0, listed),
  };
});

/** A payload comes from whoever may create jobs: it must not lead through the whole machine. */
function isInside(parent: string, path: string): boolean {
  const below = relative(resolve(parent), path);
  return below === "" || (below !== ".." && !below.startsWith(`..${sep}`) && !isAbsolute(below));
}

/** Plain files below the folder, sorted by path; links are not followed. */
async function findFiles(
  root: string,
  exclude: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<readonly { readonly path: string; readonly bytes: number }[]> {
  const found: { path: string; bytes: number }[] = [];
  const pending = [root];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    signal.throwIfAborted();
    for (const entry of await listFolder(folder, root)) {
      const path = join(folder, entry.name);
      if (exclude.has(entry.name)) continue;
      if (entry.isDirectory()) pending.push(path);
      else if (entry.isFile()) found.push({ path, bytes: await sizeOf(path) });
    }
  }
  return found.sort((left, right) => (left.path < right.path ? -1 : 1));
}

/** 0 for a file that went away meanwhile: it is told as vanished when it is read. */
async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return 0;
    throw error;
  }
}

async function listFolder(folder: string, root: string) {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (folder === root && (code === "ENOENT" || code === "ENOTDIR")) {
      throw new PermanentError(`there is no folder ${root}`);
    }
    throw error;
  }
}

/** Null when the file went away meanwhile. */
async function readFacts(
  path: string,
  shown: string,
  onBytes: (bytes: number) => Promise<void>,
  signal: AbortSignal,
): Promise<FileFacts | null> {
  const hash = createHash("sha256");
  let bytes = 0;
  let breaks = 0;
  let lineBytes = 0;
  let longestLine = { line: 0, bytes: 0 };
  const endLine = () => {
    if (longestLine.line === 0 || lineBytes > longestLine.bytes) longestLine = { line: breaks + 1, bytes: lineBytes };
    lineBytes = 0;
  };
  try {
    for await (const chunk of createReadStream(path, { signal })) {
      const data = chunk as Buffer;
      hash.update(data);
      bytes += data.length;
      let from = 0;
      for (let at = data.indexOf(NEW_LINE); at !== -1; at = data.indexOf(NEW_LINE, from)) {
        lineBytes += at - from;
        endLine();
        breaks++;
        from = at + 1;
      }
      lineBytes += data.length - from;
      await onBytes(data.length);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  // A last line without a line break is a line too.
  const endsOpen = lineBytes > 0;
  if (endsOpen) endLine();
  return { path: shown, bytes, sha256: hash.digest("hex"), lines: breaks + (endsOpen ? 1 : 0), longestLine };
}

function findLongest(files: readonly FileFacts[]) {
  let longest: { file: string; line: number; bytes: number } | null = null;
  for (const { path, longestLine } of files) {
    if (longestLine.line > 0 && (longest === null || longestLine.bytes > longest.bytes)) {
      longest = { file: path, ...longestLine };
    }
  }
  return longest;
}
