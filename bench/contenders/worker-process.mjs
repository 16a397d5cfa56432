import { fork } from "node:child_process";

const STOP_LIMIT_MS = 30_000;

/** A worker in a process of its own that says `{ kind: "ready" }` by IPC; its output is kept for when it fails. */
export async function startWorkerProcess({ file, args = [], env = {}, execArgv = [] }) {
  const child = fork(file, args, {
    env: { ...process.env, ...env },
    execArgv,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const listeners = new Set();
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk) => (output = `${output}${chunk}`.slice(-10_000)));
  const exited = new Promise((resolve) => child.once("exit", (code, signal) => resolve(code ?? signal)));
  let stopping = false;
  const failed = exited.then((how) => {
    if (!stopping) throw new Error(`a worker process ended by itself (${how}):\n${output}`);
  });
  // Whoever waits for a message learns it; nobody waiting is no reason to end this process.
  failed.catch(() => {});
  child.on("message", (message) => {
    for (const listener of listeners) listener(message);
  });
  const next = (matches) =>
    Promise.race([
      failed,
      new Promise((resolve) => {
        const listener = (message) => {
          if (!matches(message)) return;
          listeners.delete(listener);
          resolve(message);
        };
        listeners.add(listener);
      }),
    ]);
  await next(({ kind }) => kind === "ready");
  return {
    pid: child.pid,
    send: (message) => child.send(message),
    next,
    async stop() {
      stopping = true;
      child.kill("SIGTERM");
      const overdue = setTimeout(() => child.kill("SIGKILL"), STOP_LIMIT_MS);
      await exited;
      clearTimeout(overdue);
    },
  };
}
