import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type LedgerWriter, monotonicUs } from "./ledger.ts";
import type { FaultProxy } from "./proxy.ts";

const RESTART_MS = 500;

export interface SlotSettings {
  readonly name: string;
  readonly proxy: FaultProxy;
  /** Null: there is no broker. */
  readonly brokerProxy: FaultProxy | null;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** One place for a process: killed and started again, its connections always through the same proxies. */
export class Slot {
  readonly name: string;
  readonly proxy: FaultProxy;
  readonly brokerProxy: FaultProxy | null;
  readonly #settings: SlotSettings;
  readonly #program: readonly string[];
  readonly #folders: { readonly project: string; readonly logs: string };
  readonly #ledger: LedgerWriter;
  #child: ChildProcess | null = null;
  #starts = 0;
  #startedAt = 0;
  /** False while a fault keeps it down, and after the end. */
  #wanted = false;

  constructor(options: {
    readonly settings: SlotSettings;
    /** Node and the entry file of Turno. */
    readonly program: readonly string[];
    readonly folders: { readonly project: string; readonly logs: string };
    readonly ledger: LedgerWriter;
  }) {
    this.name = options.settings.name;
    this.proxy = options.settings.proxy;
    this.brokerProxy = options.settings.brokerProxy;
    this.#settings = options.settings;
    this.#program = options.program;
    this.#folders = options.folders;
    this.#ledger = options.ledger;
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** How long the process has run; 0 without one. */
  get uptimeMs(): number {
    return this.#child === null ? 0 : performance.now() - this.#startedAt;
  }

  /** Starts it, and again whenever it ends by itself. */
  start(): void {
    this.#wanted = true;
    if (this.#child !== null) return;
    this.#starts += 1;
    const log = openSync(join(this.#folders.logs, `${this.name}-${String(this.#starts).padStart(3, "0")}.log`), "a");
    const [command = process.execPath, ...leading] = this.#program;
    const child = spawn(command, [...leading, ...this.#settings.args], {
      cwd: this.#folders.project,
      env: { ...process.env, TURNO_LOG_FORMAT: "json", TURNO_LOG_LEVEL: "info", ...this.#settings.env },
      // Ctrl-C is the orchestrator's to answer.
      detached: true,
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    this.#child = child;
    this.#startedAt = performance.now();
    const pid = child.pid ?? 0;
    this.#ledger.write({ e: "spawned", at: monotonicUs(), slot: this.name, pid, detail: "" });
    child.once("exit", (code, signal) => {
      const detail = signal ?? `exit code ${code}`;
      this.#ledger.write({ e: "exited", at: monotonicUs(), slot: this.name, pid, detail });
      this.#child = null;
      if (this.#wanted) setTimeout(() => this.#wanted && this.start(), RESTART_MS);
    });
  }

  /** Sends a signal to the process; `andChildren`: to the handler processes it has started, too. */
  signal(signal: NodeJS.Signals, options: { readonly andChildren: boolean } = { andChildren: false }): void {
    const pid = this.#child?.pid;
    if (pid === undefined) return;
    for (const target of options.andChildren ? [pid, ...childrenOf(pid)] : [pid]) {
      try {
        process.kill(target, signal);
      } catch {
        // It has ended meanwhile.
      }
    }
  }

  /** Sends the signal and resolves when the process has ended; false when it still runs after `limitMs`. */
  async end(signal: NodeJS.Signals, limitMs: number): Promise<boolean> {
    this.#wanted = false;
    const child = this.#child;
    if (child === null) return true;
    const exited = once(child, "exit").then(() => true);
    child.kill(signal);
    const patience = new AbortController();
    const ended = await Promise.race([exited, delay(limitMs, false, { signal: patience.signal }).catch(() => false)]);
    patience.abort();
    return ended;
  }
}

/** Direct children of a process (Linux: /proc). */
function childrenOf(pid: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((candidate) => parentOf(candidate) === pid);
}

function parentOf(pid: number): number | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return null;
  }
}
