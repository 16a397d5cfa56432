import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { machineMs } from "./lease-deadline.ts";

/** Ends the process groups of this worker's jobs when the worker itself is gone or frozen, however that came. */
export interface GroupGuard {
  guard(pid: number | undefined): void;
  /** Unless it is told another instant before this one, or released, the guarded group ends then. */
  keepUntil(pid: number | undefined, machineMs: number): void;
  /** The group has ended, or is no longer this worker's to end. */
  release(pid: number | undefined): void;
  /** Leaves what is still guarded alone. */
  close(): void;
}

/**
 * Reads `+ group`, `@ group seconds` and `- group` until its input ends, which is when no process holds the other end
 * any more: the worker was killed. Each group with a deadline has a shell that sleeps until then, and is replaced when
 * the next one is told. It ignores what is meant for the worker, and needs nothing but a shell's own commands and sleep.
 */
const SCRIPT = `trap '' HUP INT TERM
groups=' '
forget() {
  eval "timer=\\$timer_$1"
  if [ -n "$timer" ]; then kill -USR1 "$timer"; wait "$timer"; unset "timer_$1"; fi
}
keep() {
  forget "$1"
  (
    trap 'kill -9 "$nap"; exit 0' USR1
    sleep "$2" &
    nap=$!
    wait "$nap" && kill -9 "-$1"
  ) &
  eval "timer_$1=$!"
}
{
  while read -r sign group seconds; do
    case $sign in
      +) groups="$groups$group " ;;
      @) keep "$group" "$seconds" ;;
      -) groups="\${groups%% "$group" *} \${groups#* "$group" }"; forget "$group" ;;
    esac
  done
  for group in $groups; do kill -9 "-$group"; forget "$group"; done
} 2>/dev/null`;

/**
 * A shell of a few hundred kilobytes, started with the first group. On Windows, and where there is no /bin/sh, nothing
 * is guarded: commands outlive a killed worker there.
 */
export function createGroupGuard(logger: Logger): GroupGuard {
  /** With the machine's instant until which each is kept; infinite until one is told. */
  const guarded = new Map<number, number>();
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

  /** One that has to be started is told of all, what is new included. */
  const say = (line: () => string): void => {
    try {
      if (shell === null) {
        shell = open();
        for (const [group, untilMs] of guarded) shell.stdin?.write(`+ ${group}\n${deadline(group, untilMs)}`);
      } else shell.stdin?.write(line());
    } catch (error) {
      giveUp(error);
    }
  };

  return {
    guard(pid) {
      if (!usable || pid === undefined) return;
      guarded.set(pid, Number.POSITIVE_INFINITY);
      say(() => `+ ${pid}\n`);
    },
    keepUntil(pid, untilMs) {
      if (!usable || pid === undefined || !guarded.has(pid)) return;
      guarded.set(pid, untilMs);
      say(() => deadline(pid, untilMs));
    },
    release(pid) {
      if (pid === undefined || !guarded.delete(pid) || shell === null) return;
      shell.stdin?.write(`- ${pid}\n`);
    },
    close() {
      for (const group of guarded.keys()) shell?.stdin?.write(`- ${group}\n`);
      guarded.clear();
      shell?.stdin?.end();
      shell = null;
    },
  };
}

/** Computed and written at once: what lies between would be added to the deadline. */
function deadline(group: number, untilMs: number): string {
  if (untilMs === Number.POSITIVE_INFINITY) return "";
  const seconds = Math.max(0, untilMs - machineMs()) / 1_000;
  return `@ ${group} ${seconds.toFixed(3)}\n`;
}
