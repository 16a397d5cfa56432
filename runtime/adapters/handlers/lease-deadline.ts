import type { Clock } from "../../protocol/ports/surroundings.ts";

/** Where a handler process reads its deadlines, one a line; after standard input, output, error and the channel. */
export const DEADLINE_FD = 4;

/** The monotonic clock that all processes of this machine share. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Until when the process of a run may live, and whether it outlived that while nobody here could tell it more. */
export class LeaseDeadline {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #untilMs = Number.POSITIVE_INFINITY;
  #hasPassed = false;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** Takes an instant of the worker's clock, gives the same one of the machine's. */
  set(monotonicMs: number): number {
    // A later deadline is of no use to a process that has ended by the one before.
    this.#hasPassed = this.hasPassed;
    // In this order a pause between the two makes the deadline earlier, never later.
    const nowMs = machineMs();
    this.#untilMs = nowMs + monotonicMs - this.#clock.monotonicMs();
    return this.#untilMs;
  }

  get hasPassed(): boolean {
    return this.#hasPassed || machineMs() >= this.#untilMs;
  }

  /** It ended itself for its lease, as far as can be told from its exit. */
  explains(signal: NodeJS.Signals | null): boolean {
    // Windows has no signals: a process that ends itself there exits with code 1.
    return this.hasPassed && (signal === "SIGKILL" || process.platform === "win32");
  }
}
