import { createHandlerHost } from "../../../runtime/adapters/handlers/host.ts";
import { silentLogger } from "../../../runtime/core/logger.ts";
import { makeDefinition, makeRequest } from "./requests.ts";

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
const settings = { command: ["/bin/sh", "-c", script] };
host.run(makeRequest(makeDefinition({ handler: "builtin/command", bundleHash: null, settings })));
console.log("ready");
setInterval(() => {}, 60_000);
