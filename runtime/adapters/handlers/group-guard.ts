import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";

/** Ends the process groups of this worker's jobs when the worker itself is gone, however it went. */
export interface GroupGuard {
  guard(pid: number | undefined): void;
  /** The group has ended, or is no longer this worker's to end. */
  release(pid: number | undefined): void;
  /** Leaves what is still guarded alone. */
  close(): void;
}

/**
 * Reads `+ group` and `- group` until its input ends, which is when no process holds the other end any more: the worker
 * was killed. It ignores what is meant for the worker, and needs nothing but a shell's own commands.
 */
const SCRIPT = `trap '' HUP INT TERM
groups=' '
while read -r sign group; do
  case $sign in
    +) groups="$groups$group " ;;
    -) groups="\${groups%% "$group" *} \${groups#* "$group" }" ;;
  esac
done
for group in $groups; do kill -9 "-$group" 2>/dev/null; done`;

/**
 * A shell of a few hundred kilobytes, started with the first group. On Windows, and where there is no /bin/sh, nothing
 * is guarded: commands outlive a killed worker there.
 */
export function createGroupGuard(logger: Logger): GroupGuard {
  const guarded = new Set<number>();
  let shell: ChildProcess | null = null;
  let usable = process.platform !== "win32";

  const giveUp = (error: unknown) => {
    usable = false;
    shell = null;
    logger.warn("no shell watches over processes of jobs: they outlive a worker that is killed", {
      error: describeError(error),
    });
  };

  const open = (): ChildProcess => {
    const child = spawn("/bin/sh", ["-c", SCRIPT, "turno-guard"], {
      cwd: "/",
      env: {},
      // A group of its own: a signal for the worker's must not end it first.
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    child.on("error", giveUp);
    child.once("exit", () => {
      // Somebody ended it; the next group starts another, which is told of all.
      if (shell === child) shell = null;
    });
    child.stdin?.on("error", () => {});
    child.unref();
    if (child.stdin instanceof Socket) child.stdin.unref();
    return child;
  };

  const say = (line: string): void => {
    if (shell === null) {
      shell = open();
      for (const group of guarded) shell.stdin?.write(`+ ${group}\n`);
    } else shell.stdin?.write(line);
  };

  return {
    guard(pid) {
      if (!usable || pid === undefined) return;
      guarded.add(pid);
      try {
        say(`+ ${pid}\n`);
      } catch (error) {
        giveUp(error);
      }
    },
    release(pid) {
      if (pid === undefined || !guarded.delete(pid) || shell === null) return;
      shell.stdin?.write(`- ${pid}\n`);
    },
    close() {
      for (const group of guarded) shell?.stdin?.write(`- ${group}\n`);
      guarded.clear();
      shell?.stdin?.end();
      shell = null;
    },
  };
}
