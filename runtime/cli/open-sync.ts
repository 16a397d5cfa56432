import { migrate } from "../adapters/postgres/migrate.ts";
import { checkSchema } from "../adapters/postgres/schema-range.ts";
import { composeReconciler, openStores } from "../compose.ts";
import { silentLogger } from "../core/logger.ts";
import type { OpenSync } from "./commands/sync.ts";
import { openDatabaseAddress } from "./database-address.ts";
import type { CommandIo } from "./io.ts";
import { openSource } from "./open-source.ts";
import { openProcessLogger } from "./process-logger.ts";
import { openProject } from "./project.ts";

/** The project's source and its database, for one look. */
export async function openSync(io: CommandIo, options: Parameters<OpenSync>[0]): ReturnType<OpenSync> {
  const logger = openProcessLogger(io, { level: "error" });
  const project = await openProject(io, options);
  const opened = await openDatabaseAddress(project, { start: true, logger, signal: io.signal });
  const stores = openStores({ address: opened.address, role: "command", poolSize: 2, logger });
  const closing = [() => stores.close(), () => opened.close()];
  const close = async () => {
    for (const step of closing) await step();
  };
  try {
    // The embedded database belongs to this folder alone, so its schema is this command's to prepare.
    if (opened.embedded) await migrate(opened.address, logger);
    else await checkSchema(stores.database);
    const source = await openSource(io, project, logger);
    closing.unshift(() => source.close());
    const reconciler = composeReconciler({
      stores,
      root: project.paths.root,
      loadProject: project.load,
      look: source.look,
      staleAfterMs: project.staleAfterMs,
      appliedBy: options.confirm ? "turno sync --confirm" : "turno sync",
      takeOver: opened.embedded,
      confirm: options.confirm,
      // What came of it is printed.
      logger: silentLogger,
    });
    return { reconciler, close };
  } catch (error) {
    await close();
    throw error;
  }
}
