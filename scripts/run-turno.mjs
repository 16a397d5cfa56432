import { spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import { ROOT } from "./project.mjs";

const FORWARDED = ["SIGINT", "SIGTERM", "SIGHUP"];
/** Ctrl-C reaches this process twice: from the terminal, and once more forwarded by npm. */
const SAME_SIGNAL_MS = 500;
const PARENT_CHECK_MS = 250;

/** Runs the built command line; every signal reaches it exactly once. Resolves with its exit code. */
export function runTurno(args) {
  return new Promise((done, fail) => {
    // In a process group of its own, so that the terminal's Ctrl-C comes only by way of this process.
    const child = spawn(process.execPath, [join(ROOT, "bin", "turno.js"), ...args], {
      stdio: "inherit",
      detached: process.platform !== "win32",
    });
    const forwardedAt = new Map();
    const forward = (signal) => {
      const at = performance.now();
      const isRepeated = at - (forwardedAt.get(signal) ?? Number.NEGATIVE_INFINITY) < SAME_SIGNAL_MS;
      forwardedAt.set(signal, at);
      if (!isRepeated) child.kill(signal);
    };
    for (const signal of FORWARDED) process.on(signal, () => forward(signal));
    const watch = watchNpmShell(() => {
      if (forwardedAt.size === 0) forward("SIGTERM");
    });
    child.once("error", fail);
    child.once("exit", (code, signal) => {
      clearInterval(watch);
      done(code ?? 128 + (constants.signals[signal] ?? 0));
    });
  });
}

/** npm hands SIGTERM to the shell it runs this script in, which ends of it and tells nobody. */
function watchNpmShell(onGone) {
  if (process.env.npm_lifecycle_event === undefined || process.platform === "win32") return undefined;
  const shell = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === shell) return;
    clearInterval(watch);
    onGone();
  }, PARENT_CHECK_MS);
  return watch;
}
