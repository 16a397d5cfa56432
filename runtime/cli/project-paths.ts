import { join } from "node:path";

/** Where a project keeps what Turno makes; `.turno/` is ignored by git and closed to other users. */
export interface ProjectPaths {
  readonly root: string;
  readonly turno: string;
  /** The embedded PostgreSQL's wanted data folder; as root it may lie elsewhere. */
  readonly postgres: string;
  /** Below the root wherever the state lies, so that packages left out of a bundle are found from there. */
  readonly bundles: string;
  readonly reports: string;
  readonly outbox: string;
  /**
   * Facts of the running `up`, for commands of the same folder: the first place where they can be written. The second,
   * for a folder that cannot be written to, is found with --data.
   */
  readonly upFiles: readonly string[];
}

/** `dataDir`: an absolute folder for the state in place of `.turno`. */
export function projectPaths(root: string, dataDir: string | null = null): ProjectPaths {
  const own = join(root, ".turno");
  const turno = dataDir ?? own;
  return {
    root,
    turno,
    postgres: join(turno, "postgres"),
    bundles: join(own, "bundles"),
    reports: join(turno, "reports"),
    outbox: join(turno, "outbox"),
    upFiles: [...new Set([own, turno])].map((folder) => join(folder, "run", "up.json")),
  };
}
