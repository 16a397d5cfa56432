import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { existsInTable, inspectProcess } from "./process-table.ts";

/** What postmaster.pid tells (PostgreSQL's miscadmin.h: pid, folder, start, port, socket folder, address, shm, status). */
export interface PostmasterFile {
  readonly pid: number;
  readonly socketDir: string;
  readonly ready: boolean;
}

export async function readPostmasterFile(dataDir: string): Promise<PostmasterFile | null> {
  const text = await readFile(join(dataDir, "postmaster.pid"), "utf8").catch(() => null);
  if (text === null) return null;
  const lines = text.split("\n");
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) return null;
  return { pid, socketDir: resolve(dataDir, lines[4] ?? ""), ready: (lines[7] ?? "").trim() === "ready" };
}

/** Whether the number still belongs to the PostgreSQL that serves this folder, and not to a zombie or a later process. */
export async function isPostmasterAlive(dataDir: string, pid: number): Promise<boolean> {
  const facts = await inspectProcess(pid);
  if (facts === null || !facts.command.startsWith("postgres")) return false;
  return facts.workingFolder === null || facts.workingFolder === dataDir;
}

/**
 * Makes PostgreSQL look past a lock file whose number now belongs to a zombie or to another program: a number equal to
 * the starter's own parent counts as stale there, while its check for surviving backends stays in force.
 */
export async function disownStaleFile(dataDir: string, pid: number): Promise<void> {
  if (!existsInTable(pid)) return;
  const path = join(dataDir, "postmaster.pid");
  const text = await readFile(path, "utf8").catch(() => null);
  if (text === null || Number(text.split("\n")[0]) !== pid) return;
  await writeFile(path, text.replace(/^\d+/, String(process.pid)));
}

const OWNER_FILE = "turno.owner";

/** Notes this process as the one that stops the server. */
export async function writeOwner(dataDir: string): Promise<void> {
  const facts = await inspectProcess(process.pid);
  await writeFile(join(dataDir, OWNER_FILE), `${process.pid} ${facts?.stamp ?? ""}\n`);
}

/** Whether this process noted itself as the owner. */
export function isOwnedHere(dataDir: string): boolean {
  try {
    return readFileSync(join(dataDir, OWNER_FILE), "utf8").startsWith(`${process.pid} `);
  } catch {
    return false;
  }
}

/** The living process that stops the server: `self`, `other`, or `none` when its owner died without stopping it. */
export async function readOwner(dataDir: string): Promise<"self" | "other" | "none"> {
  const text = await readFile(join(dataDir, OWNER_FILE), "utf8").catch(() => "");
  const [pid = "", ...stamp] = text.trim().split(" ");
  const facts = await inspectProcess(Number(pid));
  if (facts === null || facts.stamp !== stamp.join(" ")) return "none";
  return Number(pid) === process.pid ? "self" : "other";
}
