import { describeError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import { storableText } from "../core/storable.ts";
import { Execution } from "./execution.ts";
import type { Leases } from "./leases.ts";
import { isRefusal, type RejectedError } from "./ports/errors.ts";
import type { HandlerOutcome } from "./ports/handlers.ts";
import type { DeliveryStore, ExecutionStore, Finish, FinishOutcome } from "./ports/jobs.ts";
import type { Clock, Observer, Random } from "./ports/surroundings.ts";
import type { Delivery, DispatchMessage, LockManager, LockOutcome } from "./ports/transport.ts";
import { settle } from "./settle.ts";

/** What the protocol needs of the worker that plays it. */
export interface FencingPorts {
  readonly workerId: WorkerId;
  readonly store: Pick<ExecutionStore, "finishJob">;
  readonly leases: Leases;
  /** Starts the handler in a slot; never rejects. */
  readonly startHandler: (execution: Execution) => Promise<HandlerOutcome>;
  /** Its slot is free again. */
  readonly freeSlot: (execution: Execution) => void;
  /** A call of the store failed; for the log, the call is tried again. */
  readonly onStoreError: (error: unknown) => void;
  readonly clock: Clock;
  readonly random: Random;
  readonly observer: Observer;
  /** The end of patience: a final write that has not landed by then is left to recovery. */
  readonly signal: AbortSignal;
}

/** A broker's message that a job has entered its queue. */
export type DispatchDelivery = Pick<Delivery, "acknowledge"> & { readonly message: DispatchMessage };

/** On broker transports, what comes before the claim. */
export interface DeliveryPorts extends FencingPorts {
  readonly deliveries: DeliveryStore;
  readonly locks: Pick<LockManager, "acquire">;
  /** How long a job is put off that somebody else has locked. */
  readonly deferMs: number;
  /** The claim is this worker's and waits for a slot. False: it has gone back, or was lost, before there was one. */
  readonly takeSlot: (execution: Execution) => Promise<boolean>;
}

/**
 * `stale`: the message was a duplicate or came too late. `limited`: its job is claimed in its queue's turn. `deferred`:
 * somebody else has the lock. `returned`: it never started here. `left`: to recovery.
 */
export type Ending = FinishOutcome | "stale" | "limited" | "deferred" | "returned" | "left";

/**
 * A broker's message, from its arrival to the final write. Rejects when the database is away before the claim is
 * certain: the message is not acknowledged then, and comes again.
 */
export async function runDelivery(delivery: DispatchDelivery, ports: DeliveryPorts): Promise<Ending> {
  const lock = await ports.locks.acquire(`job:${delivery.message.jobId}`);
  /** While the final write does not land the job may pass to others, whom this worker's lock must not put off. */
  const giveWay = (error: unknown): void => {
    void releaseLock(lock);
    ports.onStoreError(error);
  };
  // A crash here leaves a lock that runs out by itself and a message that the broker delivers again.
  try {
    const held = lock.kind === "busy" ? await stepAside(delivery, ports) : await claim(delivery, ports);
    // A crash here leaves the row in Processing with no start known: recovered after one lease, nothing is charged.
    // The broker delivers again meanwhile, and the claim finds the row taken: stale.
    await delivery.acknowledge();
    // A crash here leaves the same without the message; from now on the row carries the job.
    if (typeof held === "string") return held;
    const started = await ports.takeSlot(held);
    // A crash here leaves the same again. What never got a slot has been given back, or somebody else has it.
    return started ? await runClaimed(held, { ...ports, onStoreError: giveWay }) : "returned";
  } finally {
    await releaseLock(lock);
  }
}

/** A claimed job, from its slot to its final write. On the PostgreSQL transport the take is the claim: it begins here. */
export async function runClaimed(execution: Execution, ports: FencingPorts): Promise<Ending> {
  const outcome = await run(execution, ports);
  // A crash here leaves the handler's side effects and a lease nobody renews: the job runs again, at least once in all.
  const decided = decide(execution, outcome, ports);
  // A crash here leaves the same: nothing has been written yet.
  const offered = await offer(decided, ports, (refused) => decide(execution, refused, ports));
  ports.leases.release(execution);
  // A crash here leaves nothing to do: the row says how it ended, and later writes of this execution are refused.
  if (offered === "left") return "left";
  report(execution, offered.finish, offered.ending, ports);
  return offered.ending;
}

/** The database is the truth: no row means that somebody else has, had, or cancelled the job. */
async function claim(delivery: DispatchDelivery, ports: DeliveryPorts): Promise<Execution | "stale" | "limited"> {
  const { deliveries, workerId, leases, clock } = ports;
  const sentMs = clock.monotonicMs();
  const job = await deliveries.claimDelivery(workerId, delivery.message);
  if (job === null) return "stale";
  if (job === "limited") return job;
  const execution = new Execution(job, sentMs, clock.monotonicMs());
  leases.hold(execution);
  return execution;
}

/** Whoever holds the lock works on it. Putting it off lands only while nobody owns it (reliability F3). */
async function stepAside(
  delivery: DispatchDelivery,
  { deliveries, deferMs }: DeliveryPorts,
): Promise<"deferred" | "stale"> {
  const deferred = await deliveries.deferDelivery(delivery.message, deferMs);
  return deferred ? "deferred" : "stale";
}

async function run(execution: Execution, ports: FencingPorts): Promise<HandlerOutcome> {
  execution.phase = "running";
  const outcome = await ports.startHandler(execution);
  execution.phase = "finishing";
  // It waits for its final write now: what the run held on to is free.
  execution.run = null;
  ports.freeSlot(execution);
  return outcome;
}

function decide(execution: Execution, outcome: HandlerOutcome, { clock, random }: FencingPorts): Finish {
  const { job, definition, abortReason: abort, timeoutMs, startedMs } = execution;
  const ran = startedMs !== null && outcome.kind !== "unloadable";
  const ranMs = ran ? clock.monotonicMs() - startedMs : null;
  return settle({ job, definition, outcome, abort, timeoutMs, ranMs, random });
}

const OFFER_FIRST_WAIT_MS = 50;
const OFFER_MAX_WAIT_MS = 2_000;
/** A write that PostgreSQL understood and refused this often will not land; the job is left to recovery and its budget. */
const MAX_REFUSALS = 10;

/**
 * Offers the final write until the database has answered. While it is away the lease may pass to somebody else: the
 * fence then refuses the write. Data that PostgreSQL does not take is left out, so it never costs the job (F37).
 */
async function offer(
  decided: Finish,
  ports: FencingPorts,
  decideAgain: (refused: HandlerOutcome) => Finish,
): Promise<{ readonly ending: FinishOutcome; readonly finish: Finish } | "left"> {
  let finish = decided;
  let refusals = 0;
  for (let waitMs = OFFER_FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, OFFER_MAX_WAIT_MS)) {
    try {
      return { ending: await ports.store.finishJob(ports.workerId, finish), finish };
    } catch (error) {
      ports.onStoreError(error);
      if (isRefusal(error)) {
        refusals += 1;
        const hasOnlyChildren = finish.children !== undefined && finish.result === null;
        finish = hasOnlyChildren ? decideAgain(refusedChildren(error)) : withoutData(finish, error);
      }
    }
    if (refusals >= MAX_REFUSALS) return "left";
    await ports.clock.sleep(waitMs, ports.signal);
    if (ports.signal.aborted) return "left";
  }
}

/** Nothing but what it enqueued is left to blame, and a success without it would lose it silently. */
function refusedChildren(error: RejectedError): HandlerOutcome {
  const message = storableText(`what the handler enqueued could not be stored: ${describeError(error)}`);
  return {
    kind: "threw",
    error: { name: "EnqueueError", message, stack: null, permanent: false, retryAfterMs: null },
  };
}

function withoutData(finish: Finish, error: RejectedError): Finish {
  const reason = storableText(`could not be stored: ${describeError(error)}`);
  if (finish.next === "Succeeded") return { ...finish, result: null, resultError: `the result ${reason}` };
  return { ...finish, error: finish.error === null ? null : `the error ${reason}`, stack: null };
}

function report(execution: Execution, finish: Finish, ending: FinishOutcome, { observer }: FencingPorts): void {
  const { jobId, job } = execution;
  if (ending === "fenced") {
    observer.observe({ kind: "fenced", jobId, type: job.type, outcome: finish.outcome });
    return;
  }
  const outcome = ending === "cancelled" ? "cancelled" : finish.outcome;
  observer.observe({
    kind: "job-finished",
    jobId,
    type: job.type,
    outcome,
    ranMs: finish.ranMs ?? 0,
    error: finish.error,
  });
}

/** An error of the lock service never reaches the outcome of a job (F6). */
async function releaseLock(lock: LockOutcome): Promise<void> {
  if (lock.kind !== "acquired") return;
  await lock.release().catch(() => undefined);
}
