import { lookOptions } from "../compose.ts";
import { assumeApplied } from "../reconcile/applied-from-files.ts";
import type { Desired } from "../reconcile/desired.ts";
import { createLook } from "../reconcile/look.ts";
import { loadDesired } from "../reconcile/rollback.ts";
import type { OpenSides } from "./commands/diff.ts";
import type { CommandIo } from "./io.ts";
import { expectReady, openFolder } from "./open-other-files.ts";
import { openReconcile } from "./open-reconcile.ts";
import { openProcessLogger } from "./process-logger.ts";
import { loadBy, projectRoot } from "./project.ts";

/** Two folders, commits or revisions; a database is opened for revisions only. */
export async function openSides(io: CommandIo, { dir, names }: Parameters<OpenSides>[0]): ReturnType<OpenSides> {
  const now = new Date();
  const read = async (name: string) => {
    const desired = /^\d{1,15}$/.test(name)
      ? await readRevision(io, dir, Number(name))
      : await readFiles(io, projectRoot(io, dir), name);
    return { desired, applied: assumeApplied(desired, now) };
  };
  const [before, after] = names;
  return [await read(before), await read(after)];
}

async function readRevision(io: CommandIo, dir: string | undefined, number: number): Promise<Desired> {
  const session = await openReconcile(io, { dir, data: undefined });
  try {
    return (await loadDesired(session.store, number)).desired;
  } finally {
    await session.close();
  }
}

async function readFiles(io: CommandIo, root: string, name: string): Promise<Desired> {
  const logger = openProcessLogger(io, { level: "error" });
  const { folder, close } = await openFolder(io, root, name);
  try {
    const look = createLook(lookOptions({ root: folder, loadProject: loadBy(folder, io.env), logger }));
    return expectReady(await look(io.signal), name).desired;
  } finally {
    await close();
  }
}
