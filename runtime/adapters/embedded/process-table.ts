import { execFile } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { promisify } from "node:util";

/** What the operating system says of a process; `stamp` tells it from a later process with the same number. */
export interface ProcessFacts {
  readonly command: string;
  readonly stamp: string;
  /** Linux only: the folder it works in, null where it cannot be read. */
  readonly workingFolder: string | null;
}

/** The facts of a living process; null when there is none, or only a zombie that nobody has reaped. */
export async function inspectProcess(pid: number): Promise<ProcessFacts | null> {
  if (!existsInTable(pid)) return null;
  return process.platform === "linux" ? inspectLinux(pid) : inspectByPs(pid);
}

/** Whether the process table has the number, zombies included: what PostgreSQL's own lock file check sees. */
export function existsInTable(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

async function inspectLinux(pid: number): Promise<ProcessFacts | null> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => null);
  if (stat === null) return null;
  // The command stands in parentheses and may hold spaces and parentheses itself (proc(5)).
  const close = stat.lastIndexOf(")");
  const rest = stat.slice(close + 2).split(" ");
  const state = rest[0];
  if (state === "Z" || state === "X") return null;
  const workingFolder = await readlink(`/proc/${pid}/cwd`).catch(() => null);
  return { command: stat.slice(stat.indexOf("(") + 1, close), stamp: rest[19] ?? "", workingFolder };
}

async function inspectByPs(pid: number): Promise<ProcessFacts | null> {
  const run = promisify(execFile);
  const answer = await run("ps", ["-o", "state=,lstart=,comm=", "-p", String(pid)]).catch(() => null);
  const match = /^(\S+)\s+(\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(.+)$/.exec(answer?.stdout.trim() ?? "");
  const [, state = "Z", stamp = "", command = ""] = match ?? [];
  if (state.startsWith("Z")) return null;
  return { command: command.slice(command.lastIndexOf("/") + 1), stamp, workingFolder: null };
}
