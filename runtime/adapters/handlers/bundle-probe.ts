import { Worker } from "node:worker_threads";
import { describeError } from "../../core/errors.ts";
import { entryFile } from "./entry-file.ts";
import type { RealmStart } from "./messages.ts";

/** A module that has not loaded by then is not worth waiting for. */
const PROBE_LIMIT_MS = 30_000;

/**
 * Loads a bundle in a thread of its own, which ends with it: modules are never freed, and what a thread failed to find
 * it does not look for again. Null: it loads; otherwise why it does not.
 */
export function probeBundle(url: string, env: NodeJS.ProcessEnv): Promise<string | null> {
  const start: RealmStart = { lastBegun: null, probe: url };
  return new Promise((resolve) => {
    const worker = new Worker(entryFile("thread-entry"), {
      name: "turno-probe",
      workerData: start,
      env,
      execArgv: [],
      stdout: true,
      stderr: true,
    });
    worker.unref();
    const end = (verdict: string | null) => {
      clearTimeout(timer);
      resolve(verdict);
      worker.terminate().catch(() => {});
    };
    const timer = setTimeout(() => end(`it had not loaded after ${PROBE_LIMIT_MS} ms`), PROBE_LIMIT_MS);
    timer.unref();
    worker.once("message", (verdict: string | null) => end(verdict));
    worker.once("error", (error) => end(describeError(error)));
    worker.once("exit", (code) => end(`its thread ended with exit code ${code} while it loaded`));
  });
}
