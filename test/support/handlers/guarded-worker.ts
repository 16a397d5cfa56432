import { createHandlerHost } from "../../../runtime/adapters/handlers/host.ts";
import type { JobDefinition } from "../../../runtime/config/objects.ts";
import type { DispatchToken, JobId } from "../../../runtime/core/ids.ts";
import { silentLogger } from "../../../runtime/core/logger.ts";

// A worker's part that runs handlers, with one command under way; it says "ready" and waits to be killed.
const [root = ""] = process.argv.slice(2);
const host = createHandlerHost({
  projectRoot: root,
  bundlesDir: root,
  loadBundle: async () => null,
  prepareChild: async () => ({ problem: "nothing is declared here" }),
  logger: silentLogger,
  clock: { monotonicMs: () => performance.now() },
});
const script = "sleep 300 & echo $$ $! > pids.part; mv pids.part pids; trap '' TERM HUP INT; wait; sleep 300";
const definition: JobDefinition = {
  type: "command",
  handler: "builtin/command",
  bundleHash: null,
  queue: "default",
  timeoutMs: 600_000,
  isolation: "thread",
  settings: { command: ["/bin/sh", "-c", script] },
  payloadSchema: null,
  retention: { succeededMs: 1, cancelledMs: 1, failedMs: 1 },
  policy: {
    immediateRetry: { attempts: 0, initialMs: 1 },
    retry: { maxAttempts: 1, backoff: { type: "fixed", initialMs: 1, maxMs: 1, jitter: 0 } },
    timeoutMs: 600_000,
    maxLost: 3,
    maxLostUnstarted: 20,
    maxReturns: 20,
  },
};
host.run({
  job: {
    id: "0199a000-0000-7000-8000-000000000001" as JobId,
    token: 1n as DispatchToken,
    type: "command",
    queue: "default",
    payload: {},
    definitionHash: "d",
    revision: 1,
    failures: 0,
    execution: 1,
    lost: 0,
    lostUnstarted: 0,
    returns: 0,
    maxAttempts: null,
    timeoutMs: null,
    schedule: null,
    recovered: false,
  },
  definition,
  timeoutMs: 600_000,
  alone: false,
  onProgress: () => {},
});
console.log("ready");
setInterval(() => {}, 60_000);
