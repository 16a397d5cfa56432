import { mkdir, readdir, rm, rmdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { TreeFile } from "./project-tree.ts";
import type { Repository } from "./repository.ts";

/** A private folder that holds the files of one tree, for what reads files: bundlers and readers of projects. */
export interface TreeFolder {
  /** Makes the folder equal to the files: only those that changed are read and written. */
  update(files: readonly TreeFile[], repository: Repository, signal: AbortSignal): Promise<void>;
}

/** `packages`: the folder of installed packages that handlers are bundled with; null: none. */
export function openTreeFolder(folder: string, packages: string | null): TreeFolder {
  /** Path → id of what lies there; null: nobody knows, begin anew. */
  let written: Map<string, string> | null = null;
  return {
    async update(files, repository, signal) {
      const before = written ?? new Map<string, string>();
      const isFresh = written === null;
      // Until the end nobody knows what lies there: a failure on the way begins anew.
      written = null;
      if (isFresh) await makeFolder(folder, packages);
      const after = new Map(files.map(({ path, id }) => [path, id]));
      for (const path of before.keys()) if (!after.has(path)) await removeFile(folder, path);
      const changed = files.filter(({ path, id }) => before.get(path) !== id);
      const contents = await repository.readObjects(changed, signal);
      for (const [index, { path }] of changed.entries()) {
        await mkdir(dirname(join(folder, path)), { recursive: true });
        await writeFile(join(folder, path), contents[index] ?? "", { mode: 0o600 });
      }
      written = after;
    },
  };
}

async function makeFolder(folder: string, packages: string | null): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if (packages !== null) await symlink(packages, join(folder, "node_modules"), "junction");
}

/** A folder that became empty goes with its last file: a file may take its name. */
async function removeFile(root: string, path: string): Promise<void> {
  await rm(join(root, path), { force: true });
  for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) {
    if ((await readdir(join(root, folder)).catch(() => [""])).length > 0) return;
    await rmdir(join(root, folder));
  }
}
