import { basename, relative, resolve, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type FSWatcher, watch as watchFiles } from "chokidar";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import {
  NO_PROVENANCE,
  type ProjectSnapshot,
  type ProjectSource,
  type ProjectWatch,
} from "../../protocol/ports/revisions.ts";
import {
  type FolderScan,
  makeRelevance,
  openFolderScanner,
  type ReadScan,
  wasProjectFile,
  watchedPaths,
} from "./folder-scan.ts";
import { readProvenance } from "./git-provenance.ts";
import { isLitter } from "./litter.ts";

export interface FolderSourceOptions {
  readonly root: string;
  readonly logger: Logger;
  /** How long every file must stay as it is before it is believed. */
  readonly settleMs?: number;
  /** The same for files that went away or became empty: an editor may be between two steps. */
  readonly removalSettleMs?: number;
  /** A whole look without any event, for what the watcher missed. */
  readonly rescanMs?: number;
  /** After this, files that never settle are an error. */
  readonly patienceMs?: number;
}

/** What bundles depend on wherever a handler lies: compiler options and the versions of packages. */
const DEFAULT_INPUTS = ["package-lock.json", "package.json", "pnpm-lock.yaml", "tsconfig.json", "yarn.lock"];
const READY_LIMIT_MS = 10_000;

/** A project in a folder, watched. The root may be a link that is swapped, and may be deleted and made again. */
export function openFolderSource(options: FolderSourceOptions): ProjectSource {
  const { settleMs = 250, removalSettleMs = 1_000, rescanMs = 5_000, patienceMs = 10_000 } = options;
  const root = resolve(options.root);
  let inputs: readonly string[] = DEFAULT_INPUTS;
  const scan = openFolderScanner(root, () => inputs);
  let believed: ReadScan | null = null;
  /** Fingerprint of what the last read ended with, a failure too; null: look again. */
  let seen: string | null = null;

  const settle = async (signal: AbortSignal): Promise<ProjectSnapshot> => {
    const deadline = performance.now() + patienceMs;
    for (let before = await scan(); ; ) {
      await sleep(losesSomething(believed, before) ? removalSettleMs : settleMs, undefined, { signal });
      // Asked between two equal looks, so that git speaks of exactly these files.
      const provenance = before.kind === "read" ? await readProvenanceOf(before) : null;
      const after = await scan();
      if (after.fingerprint === before.fingerprint) {
        seen = after.fingerprint;
        if (after.kind === "failed") throw after.error;
        believed = after;
        return toSnapshot(after, provenance);
      }
      if (performance.now() > deadline) {
        seen = null;
        throw new TurnoError(
          "TURNO_PROJECT_UNREADABLE",
          `expected the files in ${root} to settle, found them still changing`,
        );
      }
      before = after;
    }
  };

  return {
    identity: { name: "local", origin: root },
    read: settle,
    async isCurrent(snapshot) {
      return (await scan()).fingerprint === snapshot.fingerprint;
    },
    addInputs(paths) {
      const known = new Set(inputs);
      const added = paths.filter((path) => !known.has(path) && believed?.digests.has(path) !== true);
      inputs = [...new Set([...inputs, ...added])].sort();
      return added.length > 0;
    },
    watch: (onChange) =>
      openWatch({ scan, onChange, rescanMs, logger: options.logger, inputs: () => inputs, seen: () => seen }),
  };
}

/** Something that was there is gone, empty or unreadable now. */
function losesSomething(believed: ReadScan | null, found: FolderScan): boolean {
  if (found.kind === "failed") return true;
  if (believed === null) return [...found.files.values()].some((bytes) => bytes.length === 0);
  return [...believed.files].some(([path, bytes]) => bytes.length > 0 && (found.files.get(path)?.length ?? 0) === 0);
}

function readProvenanceOf(scan: ReadScan) {
  return readProvenance({
    root: scan.realRoot,
    paths: [...scan.digests.keys()],
    wasOurs: (path) => wasProjectFile(scan, path),
  });
}

function toSnapshot(scan: ReadScan, provenance: ProjectSnapshot["provenance"] | null): ProjectSnapshot {
  return {
    files: scan.files,
    fingerprint: scan.fingerprint,
    handlersFingerprint: scan.handlersFingerprint,
    provenance: provenance ?? NO_PROVENANCE,
    newestWriteAt: scan.newestWriteMs === 0 ? null : new Date(scan.newestWriteMs),
  };
}

interface WatchRequest {
  readonly scan: () => Promise<FolderScan>;
  readonly onChange: () => void;
  readonly rescanMs: number;
  readonly logger: Logger;
  readonly inputs: () => readonly string[];
  readonly seen: () => string | null;
}

/**
 * Events for speed, a periodic look for certainty. The watcher is opened anew when the root or what is to be watched
 * changed: it would stay deaf for a root that was swapped, or deleted and made again.
 */
async function openWatch(request: WatchRequest): Promise<ProjectWatch> {
  let watcher: FSWatcher | null = null;
  let watched = "";
  let closed = false;
  const follow = async (found: FolderScan): Promise<void> => {
    if (found.kind === "failed") return;
    const paths = watchedPaths(found, request.inputs());
    const wanted = JSON.stringify([found.rootIdentity, paths]);
    if (wanted === watched || closed) return;
    const next = await watchFolder(found, makeRelevance(paths), request);
    await watcher?.close();
    watcher = next;
    watched = wanted;
    if (closed) await next.close();
  };
  const look = async (): Promise<void> => {
    const found = await request.scan();
    const reopened = watched;
    await follow(found);
    // What happened between the look and the new watcher being ready was not heard.
    if (!closed && (found.fingerprint !== request.seen() || reopened !== watched)) request.onChange();
  };
  let busy: Promise<void> = look();
  let looking = true;
  const finished = () => {
    looking = false;
  };
  const failed = (error: unknown) =>
    request.logger.warn("the project's folder could not be watched", { error: describeError(error) });
  busy = busy.catch(failed).finally(finished);
  await busy;
  const timer = setInterval(() => {
    if (looking) return;
    looking = true;
    busy = look().catch(failed).finally(finished);
  }, request.rescanMs);
  return {
    async close() {
      closed = true;
      clearInterval(timer);
      await busy;
      await watcher?.close();
    },
  };
}

async function watchFolder(
  scan: ReadScan,
  isRelevant: (path: string) => boolean,
  request: WatchRequest,
): Promise<FSWatcher> {
  const watcher = watchFiles(scan.realRoot, {
    ignored: (path) => !isRelevant(relative(scan.realRoot, path).split(sep).join("/")),
    ignoreInitial: true,
    // Reads settle by themselves; waiting here would only add to it.
    atomic: false,
  });
  watcher.on("all", () => request.onChange());
  // Events of one file within 50 ms of another are dropped above; the raw ones are all there.
  watcher.on("raw", (_, path) => {
    if (typeof path === "string" && !isLitter(basename(path))) request.onChange();
  });
  watcher.on("error", (error) =>
    request.logger.warn("watching files failed, the periodic look goes on", { error: describeError(error) }),
  );
  // A watcher that never gets ready must not hold up the periodic look.
  const isReady = new AbortController();
  watcher.once("ready", () => isReady.abort());
  await sleep(READY_LIMIT_MS, undefined, { signal: isReady.signal }).then(
    () => request.logger.warn("watching files takes long to begin, the periodic look goes on"),
    () => undefined,
  );
  return watcher;
}
