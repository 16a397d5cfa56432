import { spawn } from "node:child_process";
import { access, constants, stat } from "node:fs/promises";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The project's root folder. */
export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** A failure whose text is for the reader as it is; everything else is shown with its stack. */
export class SetupError extends Error {}

/** Runs a program with this terminal; resolves with its exit code, 128 + n for signal n. */
export function run(command, args, options = {}) {
  return new Promise((done, fail) => {
    const child = spawn(command, args, { cwd: ROOT, stdio: "inherit", ...options });
    child.once("error", fail);
    child.once("close", (code, signal) => done(code ?? 128 + signalNumber(signal)));
  });
}

/** Runs a program quietly; its output is in the answer. */
export function capture(command, args, options = {}) {
  return new Promise((done, fail) => {
    const child = spawn(command, args, { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"], ...options });
    let output = "";
    child.stdout.on("data", (chunk) => (output += chunk));
    child.stderr.on("data", (chunk) => (output += chunk));
    child.once("error", fail);
    child.once("close", (code, signal) => done({ code: code ?? 128 + signalNumber(signal), output }));
  });
}

/** The program of a package, run by this Node. */
export function packageProgram(path) {
  return join(ROOT, "node_modules", path);
}

/** Says at once whose the folder is, in place of a failure half-way through an installation. */
export async function requireWritable(purpose) {
  for (const path of [ROOT, join(ROOT, "node_modules"), join(ROOT, "dist")]) {
    const facts = await stat(path).catch(() => null);
    if (facts === null || (await access(path, constants.W_OK).then(() => true, () => false))) continue;
    const { username, uid } = currentUser();
    throw new SetupError(
      `${path} belongs to user ${facts.uid} and cannot be written by ${username} (user ${uid}), and ${purpose} writes to it.\n` +
        "Make a clone of your own, or give the folder to this user: chown -R <user> <folder>",
    );
  }
}

function currentUser() {
  try {
    return userInfo();
  } catch {
    // A user without an entry in the user database, as in some containers.
    return { username: "this user", uid: process.getuid?.() ?? 0 };
  }
}

function signalNumber(signal) {
  return { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGABRT: 6, SIGKILL: 9, SIGSEGV: 11, SIGTERM: 15 }[signal] ?? 1;
}

/** Ends the process with the failure's text and exit code 1. */
export function reportFailure(error) {
  console.error(error instanceof SetupError ? error.message : error);
  process.exitCode = 1;
}
