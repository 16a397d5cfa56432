import { setTimeout as delay } from "node:timers/promises";
import { startEmbeddedPostgres } from "../adapters/embedded/embedded-postgres.ts";
import { TurnoError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { expectSettings, type Project, projectMissing } from "./project.ts";
import type { ProjectPaths } from "./project-paths.ts";
import { readUpFile, type UpFacts } from "./up-file.ts";

/** Where the project's state lies, and what to do when the command is over. */
export interface OpenedDatabase {
  readonly address: { readonly connectionString: string };
  /** The database is the project's own embedded one. */
  readonly embedded: boolean;
  close(): Promise<void>;
}

/** An `up` that is just starting is waited for this long: its first start makes a database. */
const STARTING_LIMIT_MS = 60_000;
const STARTING_LOOK_MS = 100;

/**
 * The database of the settings; without one, the embedded server that `turno up` runs here. With `start`, an embedded
 * server that nobody runs is started for the time of the command. Throws TURNO_DATABASE_UNREACHABLE, and with `start`
 * TURNO_PROJECT_MISSING and TURNO_PROJECT_INVALID.
 */
export async function openDatabaseAddress(
  project: Project,
  options: { readonly start: boolean; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<OpenedDatabase> {
  const { url } = project.settings.database;
  if (url !== null) {
    expectAddress(url);
    return { address: { connectionString: url }, embedded: false, close: async () => {} };
  }
  const running = await findUp(project.paths, options.signal);
  if (running !== null) {
    if (running.databaseUrl !== null) {
      return { address: { connectionString: running.databaseUrl }, embedded: true, close: async () => {} };
    }
    throw new TurnoError(
      "TURNO_DATABASE_UNREACHABLE",
      "turno up runs here with a database of its own environment, whose address it keeps to itself",
      { hint: `set TURNO_DATABASE_URL as for turno up, or use --server ${running.url ?? "URL"}` },
    );
  }
  expectSettings(project);
  if (!options.start) {
    throw new TurnoError(
      "TURNO_DATABASE_UNREACHABLE",
      `Turno does not run in ${project.paths.root}, and no database is set`,
      {
        hint: "start it with turno up (npm start), or set TURNO_DATABASE_URL",
      },
    );
  }
  // A mistyped folder must not get a database.
  if (!project.isDeclared) throw projectMissing(project.paths.root);
  const server = await startEmbeddedPostgres({
    dataDir: project.paths.postgres,
    durable: true,
    logger: options.logger,
    signal: options.signal,
  });
  return { address: server.address, embedded: true, close: () => server.stop() };
}

/** The folder's running `up`, once it has told where it can be reached; null when there is none. */
export async function findUp({ upFiles }: Pick<ProjectPaths, "upFiles">, signal: AbortSignal): Promise<UpFacts | null> {
  const giveUpAt = performance.now() + STARTING_LIMIT_MS;
  for (;;) {
    let found: UpFacts | null = null;
    for (const path of upFiles) found ??= await readUpFile(path);
    const isStarting = found !== null && found.databaseUrl === null && found.url === null;
    if (!isStarting || performance.now() > giveUpAt) return found;
    await delay(STARTING_LOOK_MS, undefined, { signal });
  }
}

/** Throws TURNO_CONFIG_SETTING, without the text: it may hold a password. */
export function expectAddress(url: string): void {
  if (/^(\/|socket:)/.test(url) || (/^postgres(ql)?:\/\//i.test(url) && URL.canParse(url))) return;
  throw new TurnoError(
    "TURNO_CONFIG_SETTING",
    "expected the database's address as postgres://user:password@host:5432/name, found another text (not shown)",
    {
      hint: "look at spec.runtime.database.url or TURNO_DATABASE_URL; write @ : / # % of a password as %40 %3A %2F %23 %25",
    },
  );
}
