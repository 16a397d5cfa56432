import { spawn } from "node:child_process";

/**
 * Signals a detached process and everything it has started. A group that is gone is no error, and neither is one of
 * another user, as sudo makes them: whoever waits for its end goes on waiting.
 */
export function signalGroup(pid: number | undefined, signal: "SIGTERM" | "SIGKILL"): void {
  if (pid === undefined) return;
  if (process.platform === "win32") {
    spawn("taskkill", ["/pid", String(pid), "/T", ...(signal === "SIGKILL" ? ["/F"] : [])], { stdio: "ignore" }).once(
      "error",
      () => {},
    );
    return;
  }
  try {
    process.kill(-pid, signal);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ESRCH" && code !== "EPERM") throw error;
  }
}

/** Ends this process with all that it has started; on Windows the process alone. */
export function endOwnGroup(): void {
  process.kill(process.platform === "win32" ? process.pid : -process.pid, "SIGKILL");
}

/** What a process of its own gets of the worker's environment: never its secrets. */
export const PASSED_ENVIRONMENT = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "NODE_ENV"] as const;

/** The allowed part of this process's environment, with additions. */
export function childEnvironment(additions: Readonly<Record<string, string>>): Record<string, string> {
  const allowed = PASSED_ENVIRONMENT.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(allowed), ...additions };
}
