import { createHash } from "node:crypto";
import { createHandlerHost } from "../../../runtime/adapters/handlers/host.ts";
import { silentLogger } from "../../../runtime/core/logger.ts";
import { makeDefinition, makeRequest } from "./requests.ts";

// A worker's part that runs handlers, with one run that ends by force only and leases that are renewed as long as this
// process is not stopped. It prints "renewed" and how the run ended; the run writes its process ids to a file.
const [root = "", kind = "", leaseMs = ""] = process.argv.slice(2);
const RENEWAL_MS = 100;
const HANDLER = `import { spawn } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
export default () => {
  writeFileSync("pids.part", process.pid + " " + spawn("sleep", ["300"]).pid);
  renameSync("pids.part", "pids");
  for (;;);
};`;
const COMMAND = ["/bin/sh", "-c", "trap '' TERM HUP INT; sleep 300 & echo $$ $! > pids.part; mv pids.part pids; wait"];
const bundleHash = `sha256:${createHash("sha256").update(HANDLER).digest("hex")}`;
const clock = { monotonicMs: () => performance.now() };
const host = createHandlerHost({
  projectRoot: root,
  bundlesDir: root,
  loadBundle: async () => HANDLER,
  prepareChild: async () => ({ problem: "nothing is declared here" }),
  logger: silentLogger,
  clock,
});
const definition =
  kind === "command"
    ? makeDefinition({ handler: "builtin/command", bundleHash: null, settings: { command: COMMAND } })
    : makeDefinition({ handler: "forever.ts", bundleHash, isolation: "process" });
const keepUntilMs = (): number => clock.monotonicMs() + Number(leaseMs);
const run = host.run(makeRequest(definition, { keepUntilMs: keepUntilMs() }));
const renewal = setInterval(() => {
  run.keepUntil?.(keepUntilMs());
  console.log("renewed");
}, RENEWAL_MS);
const outcome = await run.outcome;
clearInterval(renewal);
console.log(JSON.stringify(outcome));
await host.close();
