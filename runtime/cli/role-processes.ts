import { type ChildProcess, spawn } from "node:child_process";
import { describeError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";

export interface RoleProcess {
  /** `server`, `worker`; shown in logs and messages. */
  readonly role: string;
  readonly args: readonly string[];
  /** Beside the variables of all roles. */
  readonly env?: Readonly<Record<string, string>>;
  /** Arguments of a restart, when what it said at its first start matters: a port that was chosen then. */
  readonly argsAgain?: (ready: ReadyMessage) => readonly string[];
  /** After a restart; the first start is told by `start`. */
  readonly onReadyAgain?: (ready: ReadyMessage) => void;
}

export interface RoleProcessOptions {
  /** The JavaScript file that runs a command. */
  readonly entry: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logger: Logger;
  /** How long a child may take to stop before it is killed. */
  readonly stopTimeoutMs: number;
  /** A child printed to its standard output or error: passed on unchanged. */
  readonly onOutput: (text: string) => void;
}

/** What a role tells its supervisor once, when it works. */
export interface ReadyMessage {
  readonly kind: "ready";
  readonly url: string | null;
}

export interface RoleProcesses {
  /** Starts a child and resolves when it says that it is ready; rejects when it ends before. */
  start(role: RoleProcess): Promise<ReadyMessage>;
  /** SIGTERM to all, in the reverse order of their start; SIGKILL to what is left after the time limit. */
  stop(): Promise<void>;
  /** SIGKILL to all, at once: for a supervisor that is itself about to go. */
  kill(): void;
}

const RESTART_FIRST_MS = 200;
const RESTART_MAX_MS = 10_000;
const LIVED_LONG_MS = 60_000;

interface Supervised {
  role: RoleProcess;
  child: ChildProcess;
  /** How it ended; also when it could not be started. */
  ended: Promise<string>;
}

/**
 * Runs roles as child processes of this one. A child that dies is started again with growing waits; children notice a
 * dead parent by their IPC channel and drain by themselves, so a kill -9 here leaves nobody running for ever.
 */
export function superviseRoles(options: RoleProcessOptions): RoleProcesses {
  const supervised: Supervised[] = [];
  const waiting = new Set<NodeJS.Timeout>();
  let stopping = false;

  function launch(role: RoleProcess, onReady: (message: ReadyMessage) => void): Supervised {
    const child = spawn(process.execPath, [options.entry, ...role.args], {
      cwd: options.cwd,
      env: { ...options.env, ...role.env } as NodeJS.ProcessEnv,
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      // Ctrl-C goes to the whole foreground group; only the supervisor is to hear it.
      detached: true,
    });
    child.stdout?.setEncoding("utf8").on("data", options.onOutput);
    child.stderr?.setEncoding("utf8").on("data", options.onOutput);
    child.on("message", (message) => {
      if ((message as { kind?: unknown } | null)?.kind === "ready") onReady(message as ReadyMessage);
    });
    const ended = new Promise<string>((resolve) => {
      child.once("exit", (code, signal) => resolve(signal ?? `exit ${code}`));
      child.on("error", (error) => {
        options.logger.error("a role could not be run", { role: role.role, error: error.message });
        // Without a process there is no exit either.
        if (child.pid === undefined) resolve(error.message);
      });
    });
    return { role, child, ended };
  }

  function keepAlive(entry: Supervised, waitMs: number): void {
    const startedMs = performance.now();
    void entry.ended.then((how) => {
      const nextWaitMs = performance.now() - startedMs > LIVED_LONG_MS ? RESTART_FIRST_MS : waitMs;
      restart(entry, how, nextWaitMs);
    });
  }

  function restart(entry: Supervised, how: string, waitMs: number): void {
    if (stopping) return;
    options.logger.warn("a role ended and is started again", { role: entry.role.role, how, inMs: waitMs });
    const timer = setTimeout(() => {
      waiting.delete(timer);
      const nextWaitMs = Math.min(RESTART_MAX_MS, waitMs * 2);
      try {
        Object.assign(
          entry,
          launch(entry.role, (ready) => entry.role.onReadyAgain?.(ready)),
        );
        keepAlive(entry, nextWaitMs);
      } catch (error) {
        // No memory for another process now; later there may be.
        restart(entry, describeError(error), nextWaitMs);
      }
    }, waitMs);
    waiting.add(timer);
  }

  const alive = (): Supervised[] => supervised.filter(({ child }) => isAlive(child)).reverse();
  const kill = (): void => {
    for (const { child } of alive()) child.kill("SIGKILL");
  };

  return {
    start(role) {
      return new Promise((resolve, reject) => {
        let isReady = false;
        const entry = launch(role, (message) => {
          isReady = true;
          entry.role = { ...role, args: role.argsAgain?.(message) ?? role.args };
          keepAlive(entry, RESTART_FIRST_MS);
          resolve(message);
        });
        void entry.ended.then((how) => {
          if (isReady) return;
          reject(new Error(`the ${role.role} ended before it was ready (${how}); its output is above`));
        });
        supervised.push(entry);
      });
    },

    async stop() {
      stopping = true;
      for (const timer of waiting) clearTimeout(timer);
      const ending = alive();
      for (const { child } of ending) child.kill("SIGTERM");
      const killer = setTimeout(kill, options.stopTimeoutMs);
      await Promise.all(ending.map(({ ended }) => ended));
      clearTimeout(killer);
    },

    kill() {
      stopping = true;
      kill();
    },
  };
}

function isAlive(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
}
