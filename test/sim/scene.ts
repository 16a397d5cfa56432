import type { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import type { JobDefinition } from "../../runtime/config/objects.ts";
import { type Settings, TYPES } from "./plan.ts";

const DAY_MS = 86_400_000;

/** Bundles of the types, of the first revision. */
export const BUNDLES = TYPES.map((type) => `sha256:${type}`);

/** Puts every type in force, with budgets that a short life can exhaust. */
export function declareTypes(
  database: MemoryDatabase,
  settings: { readonly revision: number } & Pick<Settings, "narrow" | "processes">,
): void {
  for (const type of TYPES) {
    const definition = defineJob(type, settings);
    const hash = `sha256:${type}@${settings.revision}`;
    database.definitions.set(hash, definition);
    database.types.set(type, { definition, hash, revision: settings.revision });
  }
  database.queues.set("narrow", { concurrency: settings.narrow, suspended: false });
}

function defineJob(
  type: string,
  { revision, processes }: { readonly revision: number } & Pick<Settings, "processes">,
): JobDefinition {
  return {
    type,
    handler: `${type}.ts`,
    // Only what is `other` gets new code; a process that cannot load the old `work` cannot load it later.
    bundleHash: `sha256:${type}${type === "other" && revision > 1 ? revision : ""}`,
    queue: type === "narrow" ? "narrow" : "default",
    timeoutMs: 8_000 - revision,
    isolation: type === "other" && processes ? "process" : "thread",
    settings: {},
    payloadSchema: null,
    retention: { succeededMs: 7 * DAY_MS, cancelledMs: 7 * DAY_MS, failedMs: 30 * DAY_MS },
    policy: {
      immediateRetry: { attempts: 0, initialMs: 500 },
      retry: { maxAttempts: 4, backoff: { type: "exponential", initialMs: 300, maxMs: 3_000, jitter: 0.2 } },
      timeoutMs: 8_000,
      maxLost: 3,
      maxLostUnstarted: 3,
      maxReturns: 3,
    },
  };
}
