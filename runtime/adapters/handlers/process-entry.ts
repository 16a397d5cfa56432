import { Worker } from "node:worker_threads";
import type { ToRealm } from "./messages.ts";
import { endOwnGroup } from "./process-group.ts";
import { createRealm } from "./realm.ts";

// The first module of every handler process: it runs one job and ends with its parent, whatever the handler does.
const parent = process.ppid;
process.once("disconnect", endOwnGroup);

// A blocked event loop never sees the disconnect; a second thread looks after the parent and the deadline.
const [, , watch = ""] = process.argv;
new Worker(watch, { workerData: { parent }, stdout: true, stderr: true }).unref();

const say = process.send?.bind(process);
// The host believes what it hears here; libraries that report to whoever forked them find that nobody did.
Object.defineProperty(process, "send", { value: undefined });
const realm = createRealm({ send: (batch) => say?.(batch), lastBegun: null });
process.on("message", (batch: readonly ToRealm[] | "exit") => {
  if (batch === "exit") process.exit(0);
  realm.receive(batch);
});
