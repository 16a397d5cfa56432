import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/** Microseconds of the machine's monotonic clock (CLOCK_MONOTONIC), the same in all its processes. */
export function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}

/** What the client asked, on disk before it is sent, and what it learned. `unknown` may or may not have happened. */
export type ClientLine =
  | {
      readonly e: "request";
      readonly at: number;
      readonly request: number;
      readonly kind: "job" | "batch";
      /** One for each job of the request; every job carries its tag in its payload. */
      readonly tags: readonly string[];
      readonly expect: "Succeeded" | "Failed";
    }
  | {
      readonly e: "request";
      readonly at: number;
      readonly request: number;
      readonly kind: "cancel";
      readonly job: string;
    }
  | {
      readonly e: "answer";
      readonly at: number;
      readonly request: number;
      readonly outcome: "ok" | "fail" | "unknown";
      readonly status: number | null;
      /** Ids of the jobs, in the order of the request. */
      readonly jobs?: readonly string[];
      /** Ids in the answer to the same request with the same idempotency key, sent once more. */
      readonly again?: readonly string[];
    };

/** What a handler did, one line an event, written by the handler itself. */
export interface ExecutionLine {
  readonly e: "begin" | "tick" | "effect" | "refused" | "throw" | "abort" | "end";
  readonly at: number;
  readonly job: string;
  readonly fence: string;
  readonly pid: number;
  /** With `begin` only. */
  readonly tag?: string | null;
  readonly ppid?: number;
  readonly attempt?: number;
  readonly execution?: number;
  readonly key?: string | null;
}

/** What was done to a process or its network, with the clock of the other ledgers. */
export type NemesisLine =
  | {
      readonly e: "fault";
      readonly at: number;
      readonly fault: string;
      readonly slot: string | null;
      readonly detail: string;
    }
  | {
      readonly e: "spawned" | "exited";
      readonly at: number;
      readonly slot: string;
      readonly pid: number;
      readonly detail: string;
    }
  | {
      readonly e: "window";
      /** `stop`: SIGSTOP of the worker alone; `freeze`: of its handler processes too; `cut-off`: nothing came through. */
      readonly kind: "stop" | "freeze" | "cut-off";
      readonly slot: string;
      readonly from: number;
      readonly to: number;
    };

/** Appends lines to a file; `sync` waits until they are on disk. */
export class LedgerWriter {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  write(line: ClientLine | NemesisLine, options: { readonly sync: boolean } = { sync: false }): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
    if (options.sync) fsyncSync(this.#file);
  }

  close(): void {
    fsyncSync(this.#file);
    closeSync(this.#file);
  }
}

/** The lines of one file. A last line that a killed process left unfinished is no line; any other damage is an error. */
export function readLines<Line>(path: string): Line[] {
  const texts = readFileSync(path, "utf8").split("\n");
  const last = texts.pop() ?? "";
  const lines = texts.map((text, index) => parseLine<Line>(text, `${path}:${index + 1}`));
  if (last === "") return lines;
  try {
    return [...lines, JSON.parse(last) as Line];
  } catch {
    return lines;
  }
}

/** All files of a folder, one after another. */
export function* readFolder<Line>(folder: string): Generator<Line> {
  for (const name of readdirSync(folder).sort()) {
    if (name.endsWith(".ndjson")) yield* readLines<Line>(join(folder, name));
  }
}

function parseLine<Line>(text: string, place: string): Line {
  try {
    return JSON.parse(text) as Line;
  } catch (error) {
    throw new Error(`${place} is not a line of a ledger: ${text.slice(0, 120)}`, { cause: error });
  }
}
