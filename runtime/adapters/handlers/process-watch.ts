import { Socket } from "node:net";
import { workerData } from "node:worker_threads";
import { DEADLINE_FD, machineMs } from "./lease-deadline.ts";
import { endOwnGroup } from "./process-group.ts";

// A thread of every handler process. It ends the process with all that it has started when the worker is gone, or when
// the lease has run out without the worker having said that it goes on: a worker that is frozen ends nobody.
const { parent } = workerData as { readonly parent: number };
const PARENT_LOOK_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;

let keepUntilMs = Number.POSITIVE_INFINITY;
let timer: NodeJS.Timeout | undefined;
let text = "";

setInterval(() => {
  if (process.ppid !== parent) endOwnGroup();
}, PARENT_LOOK_MS);

const deadlines = new Socket({ fd: DEADLINE_FD, readable: true, writable: false });
deadlines.setEncoding("utf8");
deadlines.on("data", (chunk: string) => {
  const lines = (text + chunk).split("\n");
  text = lines.pop() ?? "";
  const latest = lines.at(-1);
  if (latest === undefined) return;
  keepUntilMs = Number(latest);
  wait();
});
// The worker has let go of it: it looks after the process itself, or is gone.
deadlines.on("error", () => deadlines.destroy());

function wait(): void {
  clearTimeout(timer);
  // What has arrived and was not read yet comes before the verdict: a machine under load may be late with both.
  timer = setTimeout(() => setImmediate(decide), Math.max(0, Math.min(keepUntilMs - machineMs(), LONGEST_WAIT_MS)));
}

function decide(): void {
  if (machineMs() >= keepUntilMs) endOwnGroup();
  else wait();
}
