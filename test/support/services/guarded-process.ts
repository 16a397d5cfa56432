import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

const ENDING_MS = 15_000;

/** A server's process in a group of its own, which ends with this process, however this one ends. */
export interface GuardedProcess {
  readonly child: ChildProcess;
  /** All that it has written, for a failure's message. */
  output(): string;
  /** Asks it to end and waits until it has; after 15 s without asking. */
  stop(): Promise<void>;
  kill(): Promise<void>;
}

/** `folder`: removed when this process dies. */
export function startGuarded(
  program: string,
  args: readonly string[],
  { env, folder }: { readonly env?: NodeJS.ProcessEnv; readonly folder: string },
): GuardedProcess {
  // A group of its own, so that Ctrl-C reaches only this process, which ends it in its turn.
  const child = spawn(program, args, {
    env: env ?? process.env,
    cwd: folder,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-20_000);
    });
  }
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  const guard = child.pid === undefined ? null : watchOver(child.pid, folder);
  const end = async (first: NodeJS.Signals): Promise<void> => {
    signalGroup(child, first);
    const late = new AbortController();
    await Promise.race([ended, delay(ENDING_MS, undefined, { signal: late.signal }).catch(() => {})]);
    late.abort();
    signalGroup(child, "SIGKILL");
    await ended;
    guard?.stdin?.end("done\n");
  };
  return { child, output: () => output, stop: () => end("SIGTERM"), kill: () => end("SIGKILL") };
}

/** A shell that waits for a word; its input ends without one when this process is killed. */
function watchOver(group: number, folder: string): ChildProcess {
  const script = 'read -r word && exit 0; kill -TERM -"$1"; sleep 5; kill -KILL -"$1"; rm -rf "$2"';
  const guard = spawn("/bin/sh", ["-c", script, "guard", String(group), folder], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guard.stdin?.on("error", () => {});
  guard.unref();
  (guard.stdin as Socket | null)?.unref();
  return guard;
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // It has ended.
  }
}

/** Rejects when the process ends first. */
export async function untilReady(process: GuardedProcess, ready: Promise<unknown>, name: string): Promise<void> {
  const ended = once(process.child, "exit").then(() => {
    throw new Error(`${name} ended while it started:\n${process.output()}`);
  });
  ended.catch(() => {});
  await Promise.race([ready, ended]);
}
