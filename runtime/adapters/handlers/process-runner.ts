import { type ChildProcess, fork } from "node:child_process";
import { Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { HandlerOutcome } from "../../protocol/ports/handlers.ts";
import type { Clock } from "../../protocol/ports/surroundings.ts";
import { entryFile } from "./entry-file.ts";
import type { GroupGuard } from "./group-guard.ts";
import { hear } from "./hear.ts";
import { DEADLINE_FD, LeaseDeadline } from "./lease-deadline.ts";
import type { FromRealm, RealmRun, RealmWork } from "./messages.ts";
import { forwardLines, forwardLog } from "./output.ts";
import { childEnvironment, signalGroup } from "./process-group.ts";

/** A process whose job is done and that does not exit by itself is killed after this. */
const EXIT_GRACE_MS = 1_000;
const RUN_ID = 1;

/** Runs each job in a process (and process group) of its own. */
export interface ProcessRunner {
  start(work: RealmWork): RealmRun;
  close(): Promise<void>;
}

export interface ProcessRunnerOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly logger: Logger;
  readonly guard: Pick<GroupGuard, "guard" | "release">;
  readonly clock: Pick<Clock, "monotonicMs">;
}

/** From the first job on one process waits in reserve, so that a start takes no fork. */
export function createProcessRunner({ cwd, env, logger, guard, clock }: ProcessRunnerOptions): ProcessRunner {
  const children = new Set<ChildProcess>();
  let spare: ChildProcess | null = null;
  let closed = false;

  const open = (): ChildProcess => {
    const child = fork(fileURLToPath(entryFile("process-entry")), [fileURLToPath(entryFile("process-watch"))], {
      cwd,
      env: childEnvironment(env),
      execArgv: [],
      detached: true,
      serialization: "advanced",
      stdio: ["ignore", "pipe", "pipe", "ipc", "pipe"],
    });
    children.add(child);
    child.stdio[DEADLINE_FD]?.on("error", () => {});
    guard.guard(child.pid);
    // Unheard, an error of the channel would end the worker; the exit tells all there is.
    child.on("error", (error) => {
      logger.warn("a handler process reported an error", { error: error.message });
      // One that never came to be has no exit.
      if (child.pid === undefined) forget(child);
    });
    child.once("exit", () => {
      forget(child);
      signalGroup(child.pid, "SIGKILL");
      guard.release(child.pid);
    });
    forwardLines(child.stdout, (line) => logger.info(line, { stream: "stdout", pid: child.pid }));
    forwardLines(child.stderr, (line) => logger.warn(line, { stream: "stderr", pid: child.pid }));
    return child;
  };

  const forget = (child: ChildProcess) => {
    children.delete(child);
    if (spare === child) spare = null;
  };

  /** Null when the machine has no room for another process, which throws or is reported later, by its kind. */
  const tryOpen = (): ChildProcess | null => {
    try {
      return open();
    } catch (error) {
      logger.warn("a handler process could not be started", { error: describeError(error) });
      return null;
    }
  };

  const take = (): ChildProcess | null => {
    const child = spare ?? tryOpen();
    spare = null;
    setImmediate(() => {
      if (!closed && spare === null) spare = tryOpen();
    });
    return child;
  };

  return {
    start(work) {
      if (closed) {
        work.settle({ kind: "neighbour-ended" });
        return { abort: () => {}, end: () => {} };
      }
      const child = take();
      if (child === null) {
        work.settle({ kind: "crashed", detail: "its process could not be started" });
        return { abort: () => {}, end: () => {} };
      }
      const deadline = new LeaseDeadline(clock);
      let ended = false;
      let settled = false;
      const settle = (outcome: HandlerOutcome) => {
        if (settled) return;
        settled = true;
        work.settle(outcome);
      };
      child.on("message", (batch: readonly FromRealm[]) => {
        for (const message of batch) {
          if (message[0] === "log") forwardLog(logger, message);
          else if (!settled && hear(work, message, (answer) => send(child, [answer]))) {
            settled = true;
            dismiss(child);
          }
        }
      });
      child.once("exit", (code, signal) => {
        if (ended) settle({ kind: "cut-off" });
        else if (!settled && deadline.explains(signal)) {
          logger.warn("a handler process ended itself, since its lease had run out", { jobId: work.jobId });
          settle({ kind: "cut-off" });
        } else settle({ kind: "crashed", detail: `its process ended with ${signal ?? `exit code ${code}`}` });
      });
      if (child.pid === undefined) settle({ kind: "crashed", detail: "its process could not be started" });
      else {
        // It knows how long it may run before it knows what.
        tell(child, deadline.set(work.keepUntilMs));
        send(child, [["define", work.definition], work.message(RUN_ID)]);
      }
      return {
        abort(reason) {
          if (!settled) send(child, [["abort", RUN_ID, reason]]);
        },
        end() {
          if (settled) return;
          ended = true;
          signalGroup(child.pid, "SIGKILL");
        },
        keepUntil(monotonicMs) {
          if (!settled) tell(child, deadline.set(monotonicMs));
        },
      };
    },
    async close() {
      closed = true;
      const ending = [...children];
      await Promise.all(
        ending.map(
          (child) =>
            new Promise<void>((resolve) => {
              child.once("exit", () => resolve());
              signalGroup(child.pid, "SIGKILL");
              if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) resolve();
            }),
        ),
      );
    },
  };
}

function send(child: ChildProcess, message: unknown): void {
  // A child that is gone reports it by its exit.
  if (child.connected) child.send(message as object, () => {});
}

/** Written at once, into a pipe that is read without the process's own event loop. */
function tell(child: ChildProcess, keepUntilMs: number): void {
  const pipe = child.stdio[DEADLINE_FD];
  if (pipe instanceof Writable && pipe.writable) pipe.write(`${keepUntilMs}\n`);
}

/** Lets a process whose job is done write out what it printed, and makes sure that it goes. */
function dismiss(child: ChildProcess): void {
  send(child, "exit");
  const timer = setTimeout(() => signalGroup(child.pid, "SIGKILL"), EXIT_GRACE_MS);
  child.once("exit", () => clearTimeout(timer));
}
