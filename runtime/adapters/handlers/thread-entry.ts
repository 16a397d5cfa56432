import { parentPort, workerData } from "node:worker_threads";
import type { RealmStart, ToRealm } from "./messages.ts";
import { createRealm, whyUnloadable } from "./realm.ts";

// The first module of every worker thread.
const port = parentPort;
if (port === null) throw new Error("thread-entry is started by the thread pool only");
const { lastBegun, probe } = workerData as RealmStart;
const say = port.postMessage.bind(port);
// The host believes what it hears here; libraries that talk to whoever started their thread talk to nobody.
Object.defineProperty(port, "postMessage", { value: () => {} });
const realm = createRealm({
  send: (batch) => say(batch),
  lastBegun: lastBegun === null ? null : new Int32Array(lastBegun),
});
if (probe !== undefined) void whyUnloadable(probe).then((verdict) => say(verdict));
port.on("message", (batch: readonly ToRealm[]) => realm.receive(batch));
