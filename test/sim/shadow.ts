import type { JobRow } from "../../runtime/adapters/memory/database.ts";
import { isFinal } from "../../runtime/protocol/states.ts";

/** A job's row as the auditor last saw it. */
export interface Shadow
  extends Pick<
    JobRow,
    | "state"
    | "token"
    | "workerId"
    | "leaseCounter"
    | "startedAtMs"
    | "progress"
    | "result"
    | "cancelRequested"
    | "failures"
    | "lost"
    | "lostUnstarted"
    | "returns"
    | "generation"
    | "execution"
  > {
  readonly isFinal: boolean;
  /** Lengths of the timeline and of the list of attempts. */
  readonly moves: number;
  readonly attempts: number;
  deadLetters: number;
  /** Moves to Failed. */
  failedEnds: number;
}

export function readShadow(row: JobRow): Shadow {
  return {
    state: row.state,
    token: row.token,
    workerId: row.workerId,
    leaseCounter: row.leaseCounter,
    startedAtMs: row.startedAtMs,
    progress: row.progress,
    result: row.result,
    cancelRequested: row.cancelRequested,
    failures: row.failures,
    lost: row.lost,
    lostUnstarted: row.lostUnstarted,
    returns: row.returns,
    generation: row.generation,
    execution: row.execution,
    isFinal: isFinal(row.state),
    moves: row.timeline.length,
    attempts: row.attempts.length,
    deadLetters: 0,
    failedEnds: 0,
  };
}
