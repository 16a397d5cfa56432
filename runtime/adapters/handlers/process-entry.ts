import { Worker } from "node:worker_threads";
import type { ToRealm } from "./messages.ts";
import { createRealm } from "./realm.ts";

// The first module of every handler process: it runs one job and ends with its parent, whatever the handler does.
const parent = process.ppid;
const endGroup = () => process.kill(process.platform === "win32" ? process.pid : -process.pid, "SIGKILL");
process.once("disconnect", endGroup);

// A blocked event loop never sees the disconnect; a second thread looks for the parent every second.
const watch = `setInterval(() => {
  if (process.ppid !== ${parent}) process.kill(${process.platform === "win32" ? process.pid : -process.pid}, "SIGKILL");
}, 1000)`;
new Worker(watch, { eval: true, stdout: true, stderr: true }).unref();

const say = process.send?.bind(process);
// The host believes what it hears here; libraries that report to whoever forked them find that nobody did.
Object.defineProperty(process, "send", { value: undefined });
const realm = createRealm({ send: (batch) => say?.(batch), lastBegun: null });
process.on("message", (batch: readonly ToRealm[] | "exit") => {
  if (batch === "exit") process.exit(0);
  realm.receive(batch);
});
