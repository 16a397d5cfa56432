import type { JobDefinition } from "../../runtime/config/objects.ts";
import type { DispatchToken, JobId, WorkerId } from "../../runtime/core/ids.ts";
import { Execution } from "../../runtime/protocol/execution.ts";
import { type DeliveryPorts, type Ending, runClaimed, runDelivery } from "../../runtime/protocol/fencing.ts";
import { Leases } from "../../runtime/protocol/leases.ts";
import type { AbortReason, HandlerOutcome } from "../../runtime/protocol/ports/handlers.ts";
import type { ClaimedJob, DeliveryStore, ExecutionStore } from "../../runtime/protocol/ports/jobs.ts";
import type { LeaseStore } from "../../runtime/protocol/ports/leases.ts";
import type { Clock } from "../../runtime/protocol/ports/surroundings.ts";
import type { LockOutcome } from "../../runtime/protocol/ports/transport.ts";

export const LEASE_MS = 60_000;
/** A deferred delivery comes back after this. */
const DEFER_MS = 30_000;

/** How a handler can end by itself or be ended. */
export type HandlerEnd = "returns" | "throws" | "dies" | "is-cut-off";

const OUTCOMES: Readonly<Record<HandlerEnd, HandlerOutcome>> = {
  returns: { kind: "returned", result: null, resultError: null },
  throws: {
    kind: "threw",
    error: { name: "Error", message: "boom", stack: null, permanent: false, retryAfterMs: null },
  },
  dies: { kind: "crashed", detail: "exit code 7" },
  "is-cut-off": { kind: "cut-off" },
};

/** A handler that runs or has run: what the world ends, and what the accounts are checked against. */
export interface HandlerRecord {
  readonly execution: Execution;
  readonly end: (outcome: HandlerOutcome) => void;
  /** Null: it runs. */
  ended: HandlerEnd | null;
}

/** What a process calls. */
export type ProcessStore = DeliveryStore &
  Pick<ExecutionStore, "claimJobs" | "claimRecovered" | "findOwned" | "finishJob" | "returnClaims" | "markStarted"> &
  Pick<LeaseStore, "renewLeases">;

export interface ProcessOptions {
  readonly name: string;
  readonly workerId: WorkerId;
  readonly store: ProcessStore;
  readonly definition: JobDefinition;
  readonly clock: Clock;
  readonly onStart: (execution: Execution) => void;
  /** The broker forgets a message. */
  readonly onAcknowledged: (token: DispatchToken) => void;
  /** An execution is over on this worker. */
  readonly onEnding: (ending: Ending) => void;
}

/** One worker process: the real fencing and leases, driven step by step instead of by timers. */
export class WorldProcess {
  readonly name: string;
  readonly workerId: WorkerId;
  readonly leases: Leases;
  /** From the claim's answer to the final write. */
  readonly executions = new Set<Execution>();
  readonly handlers = new Map<DispatchToken, HandlerRecord>();
  /** A claim is under way. */
  claiming = false;
  /** A claim's outcome is unknown: nothing is claimed before what it may have brought is given back. */
  doubt = false;
  clearing = false;
  readonly #options: ProcessOptions;
  readonly #ports: DeliveryPorts;
  #lock: LockOutcome = FREE;

  constructor(options: ProcessOptions) {
    const { workerId, store, clock } = options;
    const observer = { observe: () => {} };
    this.name = options.name;
    this.workerId = workerId;
    this.#options = options;
    this.leases = new Leases({
      store,
      workerId,
      clock,
      observer,
      settings: { leaseMs: LEASE_MS, renewalMs: 10_000 },
      onDropped: (execution) => this.executions.delete(execution),
    });
    this.#ports = {
      workerId,
      store,
      deliveries: store,
      leases: this.leases,
      locks: { acquire: () => Promise.resolve(this.#lock) },
      deferMs: DEFER_MS,
      takeSlot: () => Promise.resolve(true),
      startHandler: (execution) => this.#startHandler(execution),
      freeSlot: () => {},
      onStoreError: () => {},
      clock,
      random: { next: () => 0 },
      observer,
      signal: PATIENCE,
    };
  }

  /** Takes one job of the queue; it waits for its start. */
  async claim(options: { readonly recovered: boolean }): Promise<void> {
    const { store, clock } = this.#options;
    const { workerId } = this;
    const sentMs = clock.monotonicMs();
    const request = { workerId, queue: "default", exceptTypes: [] };
    this.claiming = true;
    try {
      const jobs: readonly (ClaimedJob | null)[] = options.recovered
        ? [await store.claimRecovered(request)]
        : (await store.claimJobs({ ...request, limit: 1, after: null })).jobs;
      for (const job of jobs) if (job !== null) this.#receive(new Execution(job, sentMs, clock.monotonicMs()));
    } catch {
      this.doubt = true;
    }
    this.claiming = false;
  }

  /** A broker's message; `busy`: somebody else has the job's lock, or the lock service says so. */
  async deliver(message: {
    readonly jobId: JobId;
    readonly token: DispatchToken;
    readonly busy: boolean;
  }): Promise<void> {
    this.claiming = true;
    this.#lock = message.busy ? { kind: "busy" } : FREE;
    const { jobId, token } = message;
    const acknowledge = async (): Promise<void> => {
      this.claiming = false;
      this.#options.onAcknowledged(token);
    };
    try {
      this.#options.onEnding(
        await runDelivery({ message: { kind: "dispatch", jobId, token, queue: "default" }, acknowledge }, this.#ports),
      );
    } catch {
      // The message stays with the broker.
      this.claiming = false;
    }
    for (const execution of this.executions) {
      if (execution.token === token && execution.phase === "over") this.executions.delete(execution);
    }
  }

  /** What a claim of unknown outcome may have brought goes back. */
  async clearDoubt(): Promise<void> {
    const { store } = this.#options;
    const { workerId } = this;
    this.clearing = true;
    try {
      const strays = await store.findOwned({ workerId, known: [...this.leases.held()] });
      if (strays.length > 0) await store.returnClaims(workerId, strays);
      this.doubt = false;
    } catch {}
    this.clearing = false;
  }

  start(execution: Execution): void {
    void runClaimed(execution, this.#ports).then((ending) => {
      this.executions.delete(execution);
      this.#options.onEnding(ending);
    });
  }

  /** An unstarted claim goes back; it is this worker's until the database has heard of it. */
  async giveBack(execution: Execution): Promise<void> {
    execution.phase = "finishing";
    for (let sent = false; !sent; ) {
      sent = await this.#options.store.returnClaims(this.workerId, [execution]).then(
        () => true,
        () => false,
      );
    }
    this.leases.release(execution);
    this.executions.delete(execution);
  }

  /** What the worker's sweep does: renews, and doubts what was not renewed in time. */
  renew(): void {
    this.leases.renewSoon();
    void this.leases.tick();
  }

  abort(execution: Execution, reason: AbortReason): void {
    execution.abort(reason, this.#options.clock.monotonicMs());
  }

  /** What the sweep writes about handlers that run. */
  async note(execution: Execution): Promise<void> {
    const { store } = this.#options;
    await store.markStarted(this.workerId, [{ ...ownership(execution), runningMs: 0 }]).catch(() => {});
    execution.startWritten = true;
  }

  endHandler(token: DispatchToken, end: HandlerEnd): void {
    const record = this.handlers.get(token);
    if (record === undefined) return;
    record.ended = end;
    record.end(OUTCOMES[end]);
  }

  #receive(execution: Execution): void {
    this.leases.hold(execution);
    execution.definition = this.#options.definition;
    this.executions.add(execution);
  }

  /** As the worker does it: only a certain lease starts anything. */
  #startHandler(execution: Execution): Promise<HandlerOutcome> {
    const nowMs = this.#options.clock.monotonicMs();
    this.executions.add(execution);
    execution.definition = this.#options.definition;
    if (execution.abortReason !== null) return Promise.resolve(OUTCOMES["is-cut-off"]);
    if (!this.leases.isCertain(execution, nowMs)) {
      execution.abort("lease-doubtful", nowMs);
      return Promise.resolve(OUTCOMES["is-cut-off"]);
    }
    execution.startedMs = nowMs;
    this.#options.onStart(execution);
    return new Promise((end) => {
      this.handlers.set(execution.token, { execution, end, ended: null });
    });
  }
}

/** Nobody's patience ends here. */
const PATIENCE = new AbortController().signal;
const FREE: LockOutcome = { kind: "acquired", release: () => Promise.resolve() };

export function ownership({ jobId, token }: Execution) {
  return { jobId, token };
}
