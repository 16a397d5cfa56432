import type { JobRow, MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import type { DispatchToken, WorkerId } from "../../runtime/core/ids.ts";
import type { Execution } from "../../runtime/protocol/execution.ts";
import type { Ending } from "../../runtime/protocol/fencing.ts";
import type { CancelOutcome, ClaimedJob, Finish, FinishOutcome, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import type { Renewal } from "../../runtime/protocol/ports/leases.ts";
import { isFinal } from "../../runtime/protocol/states.ts";
import type { HandlerRecord } from "./process.ts";

/** What happened that must not happen. */
export class Violation extends Error {
  override readonly name = "Violation";
}

export const MAX_ATTEMPTS = 2;
export const MAX_LOST = 2;

/** One statement that has run, or one act of an operator or of time. */
export interface Cause {
  readonly method: string;
  readonly parameters: readonly unknown[];
  readonly answer: unknown;
}

/** The row as it was. */
type Before = Pick<
  JobRow,
  "state" | "token" | "workerId" | "generation" | "leaseCounter" | "startedAtMs" | "cancelRequested"
>;

type Accounts = Pick<JobRow, "failures" | "lost" | "lostUnstarted" | "returns">;
const NOTHING_CHARGED: Accounts = { failures: 0, lost: 0, lostUnstarted: 0, returns: 0 };
const WRITES_OF_EXECUTIONS = ["finishJob", "returnClaims", "renewLeases", "markStarted"];

/**
 * The invariants, told a second time and without the code they watch: after every statement the row's new moves are
 * judged by who made them and by what the handlers did. Named S1 to S14 as in docs/evidence.md.
 */
export class Safety {
  /** The largest token that was minted, and the largest that was claimed. */
  minted: DispatchToken | null = null;
  claimed: DispatchToken | null = null;
  /** A cancel was answered with "cancelled", and nobody has requeued the job since. */
  cancelAnswered = false;
  /** Tokens whose final write landed, in this generation or a former one. */
  readonly landed = new Set<DispatchToken>();
  #accounts: Accounts = NOTHING_CHARGED;
  #attempts = 0;
  #deadLetters = 0;
  #succeeded = new Set<number>();
  #seen = 0;
  #before: Before;
  readonly #row: JobRow;
  readonly #database: MemoryDatabase;
  readonly #handlerOf: (workerId: WorkerId, token: DispatchToken) => HandlerRecord | null;

  constructor(options: {
    readonly row: JobRow;
    readonly database: MemoryDatabase;
    readonly handlerOf: (workerId: WorkerId, token: DispatchToken) => HandlerRecord | null;
  }) {
    this.#row = options.row;
    this.#database = options.database;
    this.#handlerOf = options.handlerOf;
    this.#before = { ...this.#row };
    this.check({ method: "insertJobs", parameters: [], answer: null });
  }

  /** A handler is about to start. */
  started({ execution, workerId }: { readonly execution: Execution; readonly workerId: WorkerId }): void {
    if (!this.owns(workerId, execution)) throw new Violation("a handler starts whose job belongs to somebody else");
  }

  /** S8: the broker may forget a message only when its job needs it no more. */
  acknowledged(token: DispatchToken): void {
    if (this.#row.state === "Enqueued" && this.#row.token === token)
      throw new Violation("S8: a message was acknowledged whose job is still to be claimed");
  }

  /** No write is refused for its data here, so none may be left to recovery. */
  ended(ending: Ending): void {
    if (ending === "left") throw new Violation("a final write was not offered until the database answered");
  }

  /** S2: whoever is certain of its lease has it. */
  believes({ execution, workerId }: { readonly execution: Execution; readonly workerId: WorkerId }): void {
    if (!this.owns(workerId, execution)) throw new Violation("S2: a process is certain of a lease that it has lost");
  }

  owns(workerId: WorkerId, { token }: Ownership): boolean {
    const row = this.#row;
    return row.state === "Processing" && row.token === token && row.workerId === workerId;
  }

  check(cause: Cause): void {
    const before = this.#before;
    const row = this.#row;
    this.#judgeWriter(cause, before);
    for (; this.#seen < row.timeline.length; this.#seen++) {
      const move = row.timeline[this.#seen];
      if (move !== undefined) this.#judgeMove(move, cause, before);
    }
    this.#judgeAnswer(cause, before);
    this.#judgeAccounts();
    this.#judgeWakeUp();
    const { state, token, workerId, generation, leaseCounter, startedAtMs, cancelRequested } = row;
    this.#before = { state, token, workerId, generation, leaseCounter, startedAtMs, cancelRequested };
  }

  /** S3, S12: what an execution writes lands only while it owns the row. */
  #judgeWriter({ method, parameters }: Cause, before: Before): void {
    if (!WRITES_OF_EXECUTIONS.includes(method)) return;
    const row = this.#row;
    const isChanged =
      this.#seen < row.timeline.length ||
      row.leaseCounter !== before.leaseCounter ||
      row.startedAtMs !== before.startedAtMs ||
      row.workerId !== before.workerId;
    if (!isChanged) return;
    const [workerId, written] = parameters as [WorkerId, Ownership | readonly Ownership[]];
    const tokens = (Array.isArray(written) ? written : [written]).map(({ token }: Ownership) => token);
    const isOwner =
      before.state === "Processing" &&
      before.workerId === workerId &&
      before.token !== null &&
      tokens.includes(before.token);
    if (!isOwner) throw new Violation(`S3: ${method} landed from an execution that does not own the job`);
  }

  #judgeMove({ from, to }: JobRow["timeline"][number], cause: Cause, before: Before): void {
    const row = this.#row;
    if (from !== null && isFinal(from)) this.#judgeRequeue(cause, before);
    if (to === "Enqueued") {
      if (row.token === null || (this.minted !== null && row.token <= this.minted))
        throw new Violation("S5: a dispatch token is not larger than every one before it");
      this.minted = row.token;
    }
    if (to === "Processing") {
      if (this.cancelAnswered) throw new Violation("S11: a job was claimed after its cancel was answered");
      if (row.token === null || (this.claimed !== null && row.token <= this.claimed))
        throw new Violation("S1: a dispatch token was claimed twice");
      this.claimed = row.token;
    }
    if (from === "Processing") this.#judgeEnd(to, cause, before);
    if (to === "Succeeded") {
      if (this.#succeeded.has(row.generation)) throw new Violation("S6: a generation succeeded twice");
      this.#succeeded.add(row.generation);
    }
    if (to === "Failed") this.#deadLetters += 1;
    if (this.#database.deadLetters.length !== this.#deadLetters)
      throw new Violation("S14: dead letters are not one for each failure for good");
  }

  /** S4: only an operator moves a finished job, and its generation tells it. */
  #judgeRequeue({ method }: Cause, before: Before): void {
    if (method !== "requeueJob") throw new Violation(`S4: ${method} moved a finished job`);
    if (this.#row.generation !== before.generation + 1)
      throw new Violation("S4: a requeue did not raise the generation");
    this.#accounts = NOTHING_CHARGED;
    this.cancelAnswered = false;
  }

  #judgeEnd(to: JobRow["state"], { method, parameters }: Cause, before: Before): void {
    const owner = before.workerId as WorkerId;
    const token = before.token as DispatchToken;
    if (before.cancelRequested && to !== "Succeeded" && to !== "Cancelled")
      throw new Violation(`S11: after a cancel request a job went to ${to}`);
    if (!before.cancelRequested && to === "Cancelled") throw new Violation("a running job was cancelled by nobody");
    if (method === "recoverJobs") {
      this.#attempts += 1;
      this.#chargeLoss(to, before);
      return;
    }
    const handler = this.#handlerOf(owner, token);
    if (handler !== null && handler.ended === null)
      throw new Violation("S9: a job was given back while its handler runs");
    this.landed.add(token);
    if (method === "returnClaims") {
      if (handler !== null) throw new Violation("an execution that ran was given back as if it had not");
      return;
    }
    if (method !== "finishJob") throw new Violation(`${method} ended an execution`);
    if (handler !== null) this.#attempts += 1;
    this.#chargeEnd(handler, { to, cancelled: before.cancelRequested, finish: parameters[1] as Finish });
  }

  #chargeLoss(to: JobRow["state"], before: Before): void {
    const started = before.startedAtMs !== null;
    const { lost, lostUnstarted } = this.#accounts;
    this.#accounts = {
      ...this.#accounts,
      lost: lost + (started ? 1 : 0),
      lostUnstarted: lostUnstarted + (started ? 0 : 1),
    };
    const spent = started && this.#accounts.lost >= MAX_LOST;
    const expected = before.cancelRequested ? "Cancelled" : spent ? "Failed" : "Enqueued";
    if (to !== expected) throw new Violation(`S7: a lost job went to ${to} instead of ${expected}`);
  }

  /** What the handler did decides which budget pays, and where the job goes. */
  #chargeEnd(
    handler: HandlerRecord | null,
    end: { readonly to: JobRow["state"]; readonly cancelled: boolean; readonly finish: Finish },
  ): void {
    const abort = handler?.execution.abortReason ?? null;
    const ended = handler?.ended ?? null;
    const charge =
      ended !== null && abort === "time-out"
        ? "failures"
        : ended === null || ended === "returns" || abort === "cancelled"
          ? null
          : abort === "shutdown"
            ? "returns"
            : abort !== null
              ? null
              : ended === "dies"
                ? "lost"
                : "failures";
    if (charge !== null) this.#accounts = { ...this.#accounts, [charge]: this.#accounts[charge] + 1 };
    const spent =
      (charge === "failures" && this.#accounts.failures >= MAX_ATTEMPTS) ||
      (charge === "lost" && this.#accounts.lost >= MAX_LOST);
    const isSuccess = ended === "returns" && abort !== "time-out";
    const expected = isSuccess ? "Succeeded" : end.cancelled ? "Cancelled" : spent ? "Failed" : "Scheduled";
    if (end.to !== expected)
      throw new Violation(`S7: a handler that ${ended ?? "never ran"} (${abort ?? "not aborted"}) led to ${end.to}`);
  }

  /** Whoever is told something is told the truth. */
  #judgeAnswer({ method, parameters, answer }: Cause, before: Before): void {
    if (method === "finishJob") {
      const finish = parameters[1] as Finish;
      const landed = this.landed.has(finish.token);
      if ((answer as FinishOutcome) !== "fenced" && !landed)
        throw new Violation("a finish that nothing is kept of was answered as landed");
      // Of an execution that never ran, only the last is remembered.
      if (answer === "fenced" && landed && (finish.ranMs !== null || this.#row.releasedToken === finish.token))
        throw new Violation("a finish that has landed was answered as fenced");
    } else if (method === "renewLeases") {
      for (const { token } of (answer as Renewal).renewed) {
        if (before.state !== "Processing" || before.token !== token || before.workerId !== parameters[0])
          throw new Violation("a lease that belongs to somebody else was renewed");
      }
    } else if (method === "claimDelivery") {
      const claimed = answer as ClaimedJob | null;
      if (claimed !== null && claimed.token !== (parameters[1] as Ownership).token)
        throw new Violation("S1: a message claimed a dispatch that it does not name");
    } else if (method === "cancelJob") {
      const { kind } = answer as CancelOutcome;
      if (kind === "cancelled") this.cancelAnswered = true;
      if (kind === "cancelled" && this.#row.state !== "Cancelled") throw new Violation("S11: a cancel left nothing");
      if (kind === "requested" && !this.#row.cancelRequested) throw new Violation("S11: a cancel request was not kept");
    }
  }

  /** S7: every claim is accounted for once, and every budget holds what was charged to it. */
  #judgeAccounts(): void {
    const row = this.#row;
    for (const account of ["failures", "lost", "lostUnstarted", "returns"] as const) {
      if (row[account] !== this.#accounts[account])
        throw new Violation(`S7: ${account} is ${row[account]} where ${this.#accounts[account]} were charged`);
    }
    if (row.attempts.length !== this.#attempts)
      throw new Violation(`S7: ${row.attempts.length} attempts are recorded of ${this.#attempts}`);
  }

  /** S8: whatever is not finished has something that will take it on. */
  #judgeWakeUp(): void {
    const row = this.#row;
    const { usual, recovered } = this.#database.runnable(row.queue);
    const everything = { after: null, limit: Number.POSITIVE_INFINITY, wanted: () => true };
    const isAwaited =
      row.state === "Enqueued"
        ? [...usual.take(everything), ...recovered.take(everything)].includes(row)
        : row.state === "Processing"
          ? this.#database.processing.has(row) && row.workerId !== null
          : row.state !== "Scheduled" || (this.#database.scheduled.has(row) && row.hold === null);
    if (!isAwaited) throw new Violation(`S8: nothing will take on a job in ${row.state}`);
  }
}
