import { type ChildProcess, spawn } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const CACHE = fileURLToPath(new URL("../../node_modules/.cache/turno-test/", import.meta.url));

/** A program in a process of its own, for tests that kill it. */
export interface RunningProgram {
  readonly child: ChildProcess;
  /** The next line the program prints; rejects when it ends before. */
  nextLine(): Promise<string>;
  /** Everything it wrote to standard error, once it has ended; empty unless that is piped. */
  errors(): Promise<string>;
}

/** Bundles a program into one module below `folder`, from where packages are found. */
export async function bundleProgram(entry: URL, folder: string = CACHE): Promise<string> {
  const outfile = join(folder, `${basename(entry.pathname, ".ts")}-${process.pid}.mjs`);
  await mkdir(folder, { recursive: true });
  await build({
    entryPoints: [fileURLToPath(entry)],
    outfile,
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
  });
  return outfile;
}

export interface RunOptions {
  /** Its standard error is the test run's unless it is asked for. */
  readonly stderr?: "pipe";
  /** Something else than this Node. */
  readonly program?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a module with this Node. */
export function runProgram(file: string, args: readonly string[], options: RunOptions = {}): RunningProgram {
  const child = spawn(options.program ?? process.execPath, [file, ...args], {
    stdio: ["ignore", "pipe", options.stderr ?? "inherit"],
    env: { ...process.env, ...options.env },
  });
  const lines = child.stdout === null ? null : createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const errors = child.stderr === null ? Promise.resolve("") : text(child.stderr);
  return {
    child,
    async nextLine() {
      const line = await lines?.next();
      if (line === undefined || line.done === true) throw new Error("the program ended without another line");
      return line.value;
    },
    errors: () => errors,
  };
}
