import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { openFolderSource } from "../adapters/files/folder-source.ts";
import { isLitter } from "../adapters/files/litter.ts";
import { readLayout } from "../adapters/files/project-layout.ts";
import { readProjectFiles } from "../adapters/files/read-project.ts";
import { openGitSource, treeRoot } from "../adapters/git/git-source.ts";
import { bundleHandlers } from "../adapters/handlers/bundle.ts";
import type { LoadedProject } from "../config/load-project.ts";
import type { SourceSpec } from "../config/objects.ts";
import { describeError, TurnoError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { ProjectSnapshot } from "../protocol/ports/revisions.ts";
import type { LookOptions } from "../reconcile/look.ts";

export interface ProjectSourceOptions {
  /** The project's folder. */
  readonly root: string;
  /** Where its state lies: a fetched repository among it. */
  readonly stateDir: string;
  /** Null: the files of the folder itself. */
  readonly source: SourceSpec | null;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** How files are loaded whose handlers lie below a root. */
  readonly loadBy: (root: string) => (files: ProjectSnapshot["files"]) => LoadedProject;
  readonly logger: Logger;
}

export interface OpenedSource {
  readonly look: LookOptions;
  /** Removes what was fetched. */
  close(): Promise<void>;
}

/** Where a project's files come from, and how they and their handlers are read. Throws TURNO_CONFIG_REFERENCE. */
export async function openProjectSource(options: ProjectSourceOptions): Promise<OpenedSource> {
  const { root, source, loadBy, logger } = options;
  if (source === null) {
    const look = bundleBelow(root, { source: openFolderSource({ root, logger }), loadProject: loadBy(root) });
    return { look, close: async () => {} };
  }
  const folder = await openPrivateFolder(options.stateDir, logger);
  try {
    const { git } = source;
    const files = treeRoot(folder);
    const opened = openGitSource({
      access: { url: git.url, ...(await readAccess(options, source, folder)) },
      ref: git.ref,
      path: git.path,
      intervalMs: git.intervalMs,
      nonFastForward: source.nonFastForward,
      signers: git.signers === null ? null : resolve(root, git.signers),
      folder,
      packages: await findPackages(root),
      project: { readFiles: readProjectFiles, readLayout, isLitter },
      logger,
    });
    const look = bundleBelow(files, { source: opened, loadProject: loadBy(files) });
    return { look, close: () => rm(folder, { recursive: true, force: true }) };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

function bundleBelow(root: string, look: Omit<LookOptions, "bundleHandlers">): LookOptions {
  return { ...look, bundleHandlers: ({ handlersDir, entries }) => bundleHandlers({ root, handlersDir, entries }) };
}

/** The secret that webhooks are signed with; null: none is declared. Throws TURNO_CONFIG_REFERENCE. */
export function readWebhookSecret({
  root,
  source,
  environment,
}: Pick<ProjectSourceOptions, "root" | "source" | "environment">): string | null {
  const from = source?.git.webhookSecretFrom;
  return from === undefined ? null : readSecret({ field: "webhook.secretFrom", from, root, environment }).trim();
}

async function readAccess({ root, environment }: ProjectSourceOptions, { git }: SourceSpec, folder: string) {
  const read = (field: string, from: string | null): string | null =>
    from === null ? null : readSecret({ field: `auth.${field}`, from, root, environment });
  const keep = async (name: string, text: string | null): Promise<string | null> => {
    if (text === null) return null;
    const path = join(folder, name);
    await writeFile(path, text.endsWith("\n") ? text : `${text}\n`, { mode: 0o600 });
    return path;
  };
  return {
    token: read("tokenFrom", git.auth.tokenFrom)?.trim() ?? null,
    sshKeyFile: await keep("ssh-key", read("sshKeyFrom", git.auth.sshKeyFrom)),
    knownHostsFile: await keep("known-hosts", read("knownHostsFrom", git.auth.knownHostsFrom)),
  };
}

function readSecret(secret: {
  readonly field: string;
  readonly from: string;
  readonly root: string;
  readonly environment: ProjectSourceOptions["environment"];
}): string {
  const { field, from, root, environment } = secret;
  const place = from.slice(from.indexOf(":") + 1);
  const fail = (found: string) =>
    new TurnoError("TURNO_CONFIG_REFERENCE", `expected spec.source.git.${field} at ${from}, found ${found}`);
  if (from.startsWith("env:")) {
    const value = environment[place];
    if (value === undefined || value === "") throw fail("no such variable");
    return value;
  }
  try {
    return readFileSync(resolve(root, place), "utf8");
  } catch (error) {
    throw fail(describeError(error));
  }
}

/** A folder of this process's own; those of processes that are gone are removed on the way. */
async function openPrivateFolder(stateDir: string, logger: Logger): Promise<string> {
  const parent = join(stateDir, "git");
  const host = hostname()
    .replaceAll(/[^A-Za-z0-9-]/g, "-")
    .slice(0, 60);
  try {
    await mkdir(parent, { recursive: true, mode: 0o700 });
    for (const name of await readdir(parent)) {
      const pid = name.startsWith(`${host}.`) ? Number(name.split(".")[1]) : Number.NaN;
      if (Number.isInteger(pid) && !isAlive(pid)) await rm(join(parent, name), { recursive: true, force: true });
    }
    const folder = join(parent, `${host}.${process.pid}.${randomBytes(4).toString("hex")}`);
    await mkdir(folder, { mode: 0o700 });
    return folder;
  } catch (error) {
    logger.debug("the repository is fetched to a temporary folder", { error: describeError(error) });
    return mkdtemp(join(tmpdir(), "turno-git-"));
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: unknown }).code === "EPERM";
  }
}

/** Handlers are bundled with the packages that are installed beside the project: nothing of a repository is installed. */
async function findPackages(root: string): Promise<string | null> {
  for (let place = root; ; place = dirname(place)) {
    const packages = join(place, "node_modules");
    const found = await stat(packages).catch(() => null);
    if (found?.isDirectory() === true) return packages;
    if (dirname(place) === place) return null;
  }
}
