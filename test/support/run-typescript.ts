import { type ChildProcessByStdio, spawn } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const CACHE = fileURLToPath(new URL("../../node_modules/.cache/turno-test/", import.meta.url));

/** A TypeScript program in a process of its own, for tests that kill it. */
export interface TypeScriptProcess {
  readonly child: ChildProcessByStdio<null, Readable, null>;
  /** The next line the program prints; rejects when it ends before. */
  nextLine(): Promise<string>;
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

export function runProgram(file: string, args: readonly string[]): TypeScriptProcess {
  const child = spawn(process.execPath, [file, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    async nextLine() {
      const line = await lines.next();
      if (line.done === true) throw new Error("the program ended without another line");
      return line.value;
    },
  };
}
