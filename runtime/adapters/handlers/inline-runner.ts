import type { Logger } from "../../core/logger.ts";
import { hear } from "./hear.ts";
import type { FromRealm, RealmRun, RealmWork } from "./messages.ts";
import { forwardLog } from "./output.ts";
import { createRealm, type Realm } from "./realm.ts";

/**
 * Runs handlers in the main thread, for tiny trusted jobs. Nothing can end one that is deaf to its abort: `end` only
 * says so, and the outcome waits for the handler. Replaced code stays in memory until the process ends.
 */
export interface InlineRunner {
  start(work: RealmWork): RealmRun;
}

export function createInlineRunner(logger: Logger): InlineRunner {
  const runs = new Map<number, RealmWork>();
  let realm: Realm | null = null;
  let lastRunId = 0;

  const receive = (batch: readonly FromRealm[]) => {
    for (const message of batch) {
      if (message[0] === "log") {
        forwardLog(logger, message);
        continue;
      }
      const work = runs.get(message[1]);
      if (work === undefined) continue;
      if (hear(work, message, (answer) => realm?.receive([answer]))) runs.delete(message[1]);
    }
  };

  return {
    start(work) {
      realm ??= createRealm({ send: receive, lastBegun: null });
      const current = realm;
      const id = ++lastRunId;
      runs.set(id, work);
      current.receive([["define", work.definition], work.message(id)]);
      return {
        abort: (reason) => current.receive([["abort", id, reason]]),
        end() {
          if (!runs.has(id)) return;
          logger.error("an inline handler ignores its abort and cannot be ended: use isolation thread or process", {
            jobId: work.jobId,
            type: work.definition.type,
          });
        },
      };
    },
  };
}
