import { spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import { ROOT } from "./project.mjs";

const FORWARDED = ["SIGINT", "SIGTERM", "SIGHUP"];
/** Ctrl-C reaches this process twice: from the terminal, and once more forwarded by npm. */
const SAME_SIGNAL_MS = 500;

/** Runs the built command line; every signal reaches it exactly once. Resolves with its exit code. */
export function runTurno(args) {
  return new Promise((done, fail) => {
    // In a process group of its own, so that the terminal's Ctrl-C comes only by way of this process.
    const child = spawn(process.execPath, [join(ROOT, "bin", "turno.js"), ...args], {
      stdio: "inherit",
      detached: process.platform !== "win32",
    });
    let last = { signal: "", at: Number.NEGATIVE_INFINITY };
    for (const signal of FORWARDED) {
      process.on(signal, () => {
        const at = performance.now();
        const isRepeated = last.signal === signal && at - last.at < SAME_SIGNAL_MS;
        last = { signal, at };
        if (!isRepeated) child.kill(signal);
      });
    }
    child.once("error", fail);
    child.once("exit", (code, signal) => done(code ?? 128 + (constants.signals[signal] ?? 0)));
  });
}
