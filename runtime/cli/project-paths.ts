import { join, resolve } from "node:path";

/** Where a project keeps what Turno makes; `.turno/` is ignored by git and closed to other users. */
export interface ProjectPaths {
  readonly root: string;
  readonly turno: string;
  /** The embedded PostgreSQL's wanted data folder; as root it may lie elsewhere. */
  readonly postgres: string;
  readonly bundles: string;
  readonly reports: string;
  readonly outbox: string;
  /** Facts of the running `up`, for commands of the same folder. */
  readonly upFile: string;
}

export function projectPaths(root: string, dataDir: string | null = null): ProjectPaths {
  const turno = dataDir === null ? join(root, ".turno") : resolve(root, dataDir);
  return {
    root,
    turno,
    postgres: join(turno, "postgres"),
    bundles: join(turno, "bundles"),
    reports: join(turno, "reports"),
    outbox: join(turno, "outbox"),
    upFile: join(root, ".turno", "run", "up.json"),
  };
}
