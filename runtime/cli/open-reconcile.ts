import { hostname } from "node:os";
import { migrate } from "../adapters/postgres/migrate.ts";
import { checkSchema } from "../adapters/postgres/schema-range.ts";
import { lookOptions, openStores } from "../compose.ts";
import { createLook } from "../reconcile/look.ts";
import { VERSION } from "../version.ts";
import type { ReconcileOptions, ReconcileSession } from "./commands/plan.ts";
import { openDatabaseAddress } from "./database-address.ts";
import type { CommandIo } from "./io.ts";
import { openSource } from "./open-source.ts";
import { openProcessLogger } from "./process-logger.ts";
import { openProject } from "./project.ts";

/** A project's files and its database; an embedded database that nobody runs is started for the time of the command. */
export async function openReconcile(io: CommandIo, options: ReconcileOptions): Promise<ReconcileSession> {
  const logger = openProcessLogger(io, { level: "error" });
  const project = await openProject(io, options);
  const opened = await openDatabaseAddress(project, { start: true, logger, signal: io.signal });
  const stores = openStores({ address: opened.address, role: "command", poolSize: 2, logger });
  const close = async () => {
    await stores.close();
    await opened.close();
  };
  try {
    // The embedded database belongs to this folder alone, so its schema is this command's to prepare.
    if (opened.embedded) await migrate(opened.address, logger);
    else await checkSchema(stores.database);
  } catch (error) {
    // A server that this command started must not stay behind.
    await close();
    throw error;
  }
  const opening = options.fromSource === true ? openSource(io, project, logger) : null;
  const source = await opening?.catch(async (error: unknown) => {
    await close();
    throw error;
  });
  const look = source?.look ?? lookOptions({ root: project.paths.root, loadProject: project.load, logger });
  return {
    source: look.source,
    look: createLook(look),
    store: stores.revisions,
    doorbell: stores.doorbell,
    appliedBy: `${hostname()} turno apply`,
    version: VERSION,
    async close() {
      await source?.close();
      await close();
    },
  };
}
