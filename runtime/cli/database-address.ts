import { startEmbeddedPostgres } from "../adapters/embedded/embedded-postgres.ts";
import { TurnoError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Project } from "./project.ts";
import { readUpFile } from "./up-file.ts";

/** Where the project's state lies, and what to do when the command is over. */
export interface OpenedDatabase {
  readonly address: { readonly connectionString: string };
  /** The database is the project's own embedded one. */
  readonly embedded: boolean;
  close(): Promise<void>;
}

/**
 * The database of the settings; without one, the embedded server that `turno up` runs here. With `start`, an embedded
 * server that nobody runs is started for the time of the command. Throws TURNO_DATABASE_UNREACHABLE.
 */
export async function openDatabaseAddress(
  project: Project,
  options: { readonly start: boolean; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<OpenedDatabase> {
  const { url } = project.settings.database;
  if (url !== null) return { address: { connectionString: url }, embedded: false, close: async () => {} };
  const running = await readUpFile(project.paths.upFile);
  if (running !== null) {
    return { address: { connectionString: running.databaseUrl }, embedded: true, close: async () => {} };
  }
  if (!options.start) {
    throw new TurnoError(
      "TURNO_DATABASE_UNREACHABLE",
      `Turno does not run in ${project.paths.root}, and no database is set`,
      {
        hint: "start it with turno up (npm start), or set TURNO_DATABASE_URL",
      },
    );
  }
  const server = await startEmbeddedPostgres({
    dataDir: project.paths.postgres,
    durable: true,
    logger: options.logger,
    signal: options.signal,
  });
  return { address: server.address, embedded: true, close: () => server.stop() };
}
