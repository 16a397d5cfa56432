import { checkSchema } from "../adapters/postgres/schema-range.ts";
import { systemIds } from "../adapters/system/ids.ts";
import { openStores } from "../compose.ts";
import type { HistorySession } from "./commands/backfill.ts";
import { openDatabaseAddress } from "./database-address.ts";
import type { CommandIo } from "./io.ts";
import { openProcessLogger } from "./process-logger.ts";
import { openProject } from "./project.ts";

/** The database of a project, or the embedded one that runs there. */
export async function openHistory(
  io: CommandIo,
  options: { readonly dir: string | undefined },
): Promise<HistorySession> {
  const logger = openProcessLogger(io, { level: "error" });
  const project = await openProject(io, { dir: options.dir, filesOptional: true });
  const opened = await openDatabaseAddress(project, { start: false, logger, signal: io.signal });
  const stores = openStores({ address: opened.address, role: "command", poolSize: 2, logger });
  const close = async () => {
    await stores.close();
    await opened.close();
  };
  try {
    await checkSchema(stores.database);
    return { history: stores.history, ids: systemIds, close };
  } catch (error) {
    await close();
    throw error;
  }
}
