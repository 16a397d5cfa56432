import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ENTRY = fileURLToPath(new URL("../../bin/turno.js", import.meta.url));
const READY_LIMIT_MS = 60_000;
const POLL_MS = 50;

/** A project in a folder of its own, in a path with a space. */
export interface TestProject {
  readonly root: string;
  write(path: string, text: string): Promise<void>;
  /** Starts a command in the folder. */
  start(args: readonly string[], env?: Readonly<Record<string, string>>): RunningCommand;
  /** Runs a command to its end. */
  run(
    ...args: readonly string[]
  ): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>;
  /** Kills what is left and removes the folder. */
  remove(): Promise<void>;
}

export interface RunningCommand {
  readonly child: ChildProcess;
  readonly output: () => string;
  /** Resolves to the first match of a pattern in what it printed. */
  waitFor(pattern: RegExp): Promise<RegExpExecArray>;
  /** Sends a signal and resolves to the exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

export async function createTestProject(files: Readonly<Record<string, string>>): Promise<TestProject> {
  const root = await mkdtemp(join(tmpdir(), "turno e2e "));
  // As root the database runs as another user, who may then reach its data in here.
  await chmod(root, 0o755);
  const started = new Set<ChildProcess>();
  const write = async (path: string, text: string): Promise<void> => {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  };
  for (const [path, text] of Object.entries(files)) await write(path, text);

  const start: TestProject["start"] = (args, env = {}) => {
    const child = spawn(process.execPath, [ENTRY, ...args], {
      cwd: root,
      env: { ...process.env, TURNO_LOG_FORMAT: "json", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    started.add(child);
    child.once("exit", () => started.delete(child));
    let output = "";
    const grown = new Set<() => void>();
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
        for (const look of grown) look();
      });
    }
    return {
      child,
      output: () => output,
      waitFor: (pattern) =>
        new Promise((resolve, reject) => {
          const timer = setTimeout(
            () => finish(() => reject(new Error(`no ${pattern} in:\n${output}`))),
            READY_LIMIT_MS,
          );
          const onExit = () => finish(() => reject(new Error(`ended without ${pattern}:\n${output}`)));
          const finish = (settle: () => void): void => {
            clearTimeout(timer);
            grown.delete(look);
            child.off("exit", onExit);
            settle();
          };
          const look = (): void => {
            const match = pattern.exec(output);
            if (match !== null) finish(() => resolve(match));
          };
          grown.add(look);
          child.once("exit", onExit);
          look();
        }),
      async end(signal) {
        if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
        const exited = once(child, "exit");
        child.kill(signal);
        await exited;
        return child.exitCode;
      },
    };
  };

  return {
    root,
    write,
    start,
    async run(...args) {
      const child = spawn(process.execPath, [ENTRY, ...args], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
      let out = "";
      let err = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
      child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
      const [code] = (await once(child, "close")) as [number | null];
      return { code, out, err };
    },
    async remove() {
      for (const child of started) {
        const exited = once(child, "exit");
        child.kill("SIGTERM");
        await exited;
      }
      await endOrphanedDatabase(root);
      await rm(root, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}

/** Starts `up` and resolves when it is ready. */
export async function startUp(
  project: TestProject,
  options: { readonly args?: readonly string[]; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<RunningCommand & { readonly url: string }> {
  const command = project.start(["up", "--port", "0", ...(options.args ?? [])], options.env);
  const [, url] = await command.waitFor(/Turno is ready: (http:\S+)/);
  return { ...command, url: url ?? "" };
}

/** Looks again and again until a condition holds; the condition's own text says what was missing. */
export async function eventually<Value>(
  what: string,
  look: () => Promise<Value | null | undefined | false>,
  limitMs = 30_000,
): Promise<Value> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const found = await look().catch(() => null);
    if (found !== null && found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`it did not happen within ${limitMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

export async function getJson<Body>(url: string): Promise<Body> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return (await response.json()) as Body;
}

export async function postJson<Body>(url: string, body?: unknown): Promise<Body> {
  const response = await fetch(url, {
    method: "POST",
    ...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as Body;
}

/** The process id of the embedded server of a folder; null when there is none. */
export async function postmasterPid(root: string): Promise<number | null> {
  try {
    const text = await readFile(join(root, ".turno", "postgres", "postmaster.pid"), "utf8");
    return Number(text.split("\n")[0]);
  } catch {
    return null;
  }
}

async function endOrphanedDatabase(root: string): Promise<void> {
  const pid = await postmasterPid(root);
  if (pid === null) return;
  try {
    process.kill(pid, "SIGINT");
  } catch {
    return;
  }
  await eventually("the database's end", async () => (await postmasterPid(root)) === null);
}
