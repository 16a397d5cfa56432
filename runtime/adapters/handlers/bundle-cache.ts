import { createHash } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { TurnoError } from "../../core/errors.ts";

const HASH = /^sha256:([0-9a-f]{64})$/;

/** Bundles on this machine's disk, fetched by hash on first use. */
export interface BundleCache {
  /** file: URL of a bundle that is known to be there; null: call `fetch`. */
  known(hash: string): string | null;
  /** Brings the bundle to disk. Rejects with TURNO_HANDLER_LOAD when nobody has it, else with the store's error. */
  fetch(hash: string): Promise<string>;
}

export interface BundleCacheOptions {
  readonly folder: string;
  readonly loadBundle: (hash: string) => Promise<string | null>;
}

/** Hash of a bundle's code as it names the bundle everywhere. */
export function bundleHash(code: string): string {
  return `sha256:${createHash("sha256").update(code).digest("hex")}`;
}

export function createBundleCache({ folder, loadBundle }: BundleCacheOptions): BundleCache {
  const urls = new Map<string, string>();
  const fetching = new Map<string, Promise<string>>();

  const bring = async (hash: string): Promise<string> => {
    const hex = HASH.exec(hash)?.[1];
    if (hex === undefined) {
      throw new TurnoError(
        "TURNO_HANDLER_LOAD",
        `expected a bundle hash such as sha256:<64 hex digits>, found "${hash}"`,
      );
    }
    const file = join(folder, `${hex}.mjs`);
    // A file that a crash cut short has another hash and is fetched again.
    if ((await hashOfFile(file)) !== hash) {
      const code = await loadBundle(hash);
      if (code === null) {
        throw new TurnoError("TURNO_HANDLER_LOAD", `the bundle ${hash} is neither in ${folder} nor in the database`);
      }
      if (bundleHash(code) !== hash) {
        throw new TurnoError("TURNO_HANDLER_LOAD", `the code kept as ${hash} has another hash; it is not run`);
      }
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const partial = `${file}.${process.pid}.partial`;
      await writeFile(partial, code, { mode: 0o600 });
      await rename(partial, file);
    }
    const url = pathToFileURL(file).href;
    urls.set(hash, url);
    return url;
  };

  return {
    known: (hash) => urls.get(hash) ?? null,
    fetch(hash) {
      const running = fetching.get(hash);
      if (running !== undefined) return running;
      const started = bring(hash).finally(() => fetching.delete(hash));
      fetching.set(hash, started);
      return started;
    },
  };
}

async function hashOfFile(file: string): Promise<string | null> {
  try {
    return bundleHash(await readFile(file, "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}
