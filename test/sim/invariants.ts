/** What must hold after every step, and what must hold once everything is healed. One line each. */
export const INVARIANTS = {
  S1: "a dispatch token is claimed at most once, and a handler starts at most once for it",
  S2: "nobody may own a job while another process can still be certain of its lease, or runs it without having been asked to stop",
  S3: "a job leaves Processing only by a write that shows its token and worker, or by a recovery that repeats what it saw",
  S4: "a final state is left only by a requeue, which raises the generation",
  S5: "every entry into the queue mints a token larger than all before it",
  S6: "a generation succeeds at most once, and with the result of the execution that owned it",
  S7: "every end is charged to the budget it belongs to, once, and an exhausted budget ends the job",
  S8: "every accepted job that is not at its end is there and has something that will wake it; on a broker transport its current message is in the outbox, in the broker or delivered and open, or was confirmed and lost by the broker, so that redispatch will find it",
  S9: "a concurrency key has at most one owner, and a queue with a limit at most so many",
  S10: "an instant of a schedule is decided once, lies on its grid, and makes at most one job",
  S11: "after a cancel was answered the job is neither claimed nor succeeds; one that was asked for ends Succeeded or Cancelled",
  S12: "progress, starts and renewals are written by the owner only",
  S13: "what was refused does not exist, and nothing exists that nobody asked for",
  S14: "a generation that Failed has exactly one dead letter, any other none",
  S15: "an execution has at most one attempt, written at its end and never changed",
  S16: "a job is given back or finished only when its handler has ended",
  S17: "a process that has ended does nothing, and no error of it goes unhandled",
  S18: "a recovered job is claimed alone, with its start written, and runs in a process of its own",
  S19: "nothing looks dead to who has not looked at it for a whole lease, without a gap",
  S20: "nothing is taken from a process that is well",
  S21: "a request with a key makes one job however often it is sent, and no job is made beside one that counts for its unique key",
  S22: "a run in a process of its own has ended before its successor starts, also when its worker is paused",
  L1: "once healed, every job comes to its end and every schedule's run too",
  L2: "no job is executed without bound",
  L3: "the jobs of a dead process are taken back within two leases, two looks and a term of leadership",
  L4: "every instant of a schedule is accounted for: run, overlapped, missed or superseded",
  L5: "a graceful stop of a healthy process ends in time and leaves nothing of it behind",
  L6: "a cancel request reaches the handler of a process that is well with the next renewal",
} as const;
export type Invariant = keyof typeof INVARIANTS;

export interface Violation {
  readonly invariant: Invariant;
  readonly message: string;
  readonly atMs: number;
}
