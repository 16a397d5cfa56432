import { checkSchema } from "../adapters/postgres/schema-range.ts";
import { composeWebApp, openStores } from "../compose.ts";
import { type ApiClient, createApiClient, createRemoteClient } from "./api-client.ts";
import type { ClientOptions } from "./commands/jobs.ts";
import { openDatabaseAddress } from "./database-address.ts";
import type { CommandIo } from "./io.ts";
import { openProcessLogger } from "./process-logger.ts";
import { openProject } from "./project.ts";

/** Reaches the API over the network with --server; otherwise in this process, over the project's database. */
export async function openClient(io: CommandIo, options: ClientOptions): Promise<ApiClient> {
  if (options.server !== undefined) {
    return createRemoteClient({ url: options.server, apiKey: io.env.TURNO_API_KEY ?? null });
  }
  const logger = openProcessLogger(io, { level: "error" });
  const project = await openProject(io, { dir: options.dir, filesOptional: true });
  const opened = await openDatabaseAddress(project, { start: false, logger, signal: io.signal });
  const stores = openStores({ address: opened.address, role: "command", poolSize: 2, logger });
  const close = async () => {
    await stores.close();
    await opened.close();
  };
  try {
    // Tells what is wrong with the database in its own words, not in those that the API has for strangers.
    await checkSchema(stores.database);
    // Whoever can reach the database needs no key; the application never listens.
    const app = composeWebApp({ stores, settings: { ...project.settings.api, keys: null }, logger });
    return createApiClient(async (path, init) => app.request(`http://localhost${path}`, init), close);
  } catch (error) {
    await close();
    throw error;
  }
}
