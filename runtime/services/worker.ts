import type { JobDefinition } from "../config/objects.ts";
import { describeError } from "../core/errors.ts";
import type { JobId, WorkerId } from "../core/ids.ts";
import type { Json } from "../core/json.ts";
import { Execution } from "../protocol/execution.ts";
import {
  type DeliveryPorts,
  type DispatchDelivery,
  type Ending,
  runClaimed,
  runDelivery,
} from "../protocol/fencing.ts";
import { type LeaseSettings, Leases } from "../protocol/leases.ts";
import type { HandlerHost, HandlerOutcome } from "../protocol/ports/handlers.ts";
import type { ClaimedJob, DeliveryStore, ExecutionStore } from "../protocol/ports/jobs.ts";
import type { LeaseStore } from "../protocol/ports/leases.ts";
import type { OutboxStore } from "../protocol/ports/outbox.ts";
import type { Broker, Doorbell, LockManager } from "../protocol/ports/transport.ts";
import type { WorkerCondition } from "../protocol/ports/workers.ts";
import { whyAlone } from "../protocol/settle.ts";
import { ClaimDoubt } from "./claim-doubt.ts";
import { Claimer } from "./claimer.ts";
import { Consumer } from "./consumer.ts";
import { createDatabaseWatch, type DatabaseWatch } from "./database-watch.ts";
import { DefinitionCache } from "./definition-cache.ts";
import { ExecutionSweep } from "./execution-sweep.ts";
import type { LoopSurroundings } from "./supervised-loop.ts";
import type { Supply } from "./supply.ts";
import { UnloadableTypes } from "./unloadable-types.ts";
import { WorkQueue } from "./work-queue.ts";

export interface WorkerSettings extends LeaseSettings {
  readonly queues: readonly { readonly name: string; readonly concurrency: number }[];
  /** How long a stopping worker waits before it aborts what runs. */
  readonly shutdownTimeoutMs: number;
  /** How long a handler that was aborted may go on before it is ended. */
  readonly cutOffMs?: number;
}

/** What a worker on a broker transport has beside the database. */
export interface BrokerSupply {
  readonly broker: Pick<Broker, "subscribe">;
  readonly locks: Pick<LockManager, "acquire">;
}

export interface WorkerOptions extends LoopSurroundings {
  readonly workerId: WorkerId;
  readonly store: ExecutionStore & DeliveryStore & Pick<LeaseStore, "renewLeases"> & Pick<OutboxStore, "consumeMarker">;
  /** Null: jobs are claimed from the database alone. */
  readonly brokerSupply?: BrokerSupply | null;
  readonly host: HandlerHost;
  readonly doorbell: Pick<Doorbell, "listen">;
  readonly settings: WorkerSettings;
  /** Why a payload does not fit the schema of its type now; null: it fits. */
  readonly checkPayload: (definition: JobDefinition, payload: Json) => string | null;
  /** Bundles turned out to be unloadable here; the next heartbeat should say so at once. */
  readonly onUnloadable?: () => void;
}

const CUT_OFF_MS = 5_000;
/** A stopping worker has little time left of what its supervisor grants. */
const SHUTDOWN_CUT_OFF_MS = 3_000;
/** After the last handler has ended: how long final writes are offered before recovery has to do it. */
const LAST_WRITES_MS = 5_000;
/** A job that somebody else has locked is looked at again after this; a lock of a worker that is gone runs out by itself. */
const DEFER_MS = 5_000;
/** `locks.driver: none`. */
const NO_LOCKS: Pick<LockManager, "acquire"> = { acquire: () => Promise.resolve({ kind: "unavailable" }) };
const NEVER_RAN: HandlerOutcome = { kind: "cut-off" };

/** Takes jobs from queues and runs them in slots, each by the fencing protocol. Starts at once. */
export class Worker {
  readonly #options: WorkerOptions;
  readonly #queues: readonly WorkQueue[];
  readonly #leases: Leases;
  readonly #watch: DatabaseWatch;
  readonly #definitions: DefinitionCache;
  readonly #unloadable: UnloadableTypes;
  readonly #supply: Supply;
  readonly #consumer: Consumer | null;
  readonly #sweep: ExecutionSweep;
  readonly #ports: DeliveryPorts;
  /** Claims of deliveries that wait for their slot, each with what tells it that it has one, or never will. */
  readonly #turns = new Map<Execution, (takesSlot: boolean) => void>();
  readonly #running = new Set<Execution>();
  readonly #ending = new AbortController();
  #open = 0;
  #stopping: Promise<void> | null = null;
  #waiting: { readonly isOver: () => boolean; readonly wake: () => void } | null = null;

  constructor(options: WorkerOptions) {
    const { workerId, store, clock, random, observer, settings } = options;
    this.#options = options;
    this.#queues = settings.queues.map(({ name, concurrency }) => new WorkQueue(name, concurrency));
    this.#leases = new Leases({
      store,
      workerId,
      clock,
      observer,
      settings,
      onDropped: (execution) => this.#close(execution),
    });
    this.#watch = createDatabaseWatch("worker", observer);
    this.#definitions = new DefinitionCache(store);
    this.#unloadable = new UnloadableTypes(options.host, clock);
    const claims = new ClaimDoubt({
      store,
      workerId,
      known: () => [...this.#leases.held()],
      watch: this.#watch,
      onClear: () => this.#supply.pump(),
    });
    const claimer = new Claimer({
      store,
      workerId,
      queues: this.#queues,
      clock,
      claims,
      exceptTypes: () => this.#unloadable.types(),
      onClaimed: (queue, jobs, sentMs) => this.#receive(queue, jobs, sentMs),
      onWaiting: () => this.#sweep.soon(),
    });
    const { brokerSupply = null } = options;
    this.#consumer =
      brokerSupply === null
        ? null
        : new Consumer({
            ...brokerSupply,
            store,
            workerId,
            queues: this.#queues,
            clock,
            claims,
            claimer,
            play: (delivery, onHeld) => this.#deliver(delivery, onHeld),
          });
    this.#supply = this.#consumer ?? claimer;
    this.#sweep = new ExecutionSweep({
      ...options,
      leases: this.#leases,
      running: this.#running,
      queues: this.#queues,
      supply: this.#supply,
      watch: this.#watch,
      cutOffMs: () =>
        this.#stopping === null
          ? (settings.cutOffMs ?? CUT_OFF_MS)
          : Math.min(settings.cutOffMs ?? CUT_OFF_MS, SHUTDOWN_CUT_OFF_MS),
      onGivenBack: (execution) => this.#close(execution),
    });
    this.#ports = {
      workerId,
      store,
      deliveries: store,
      locks: brokerSupply?.locks ?? NO_LOCKS,
      deferMs: DEFER_MS,
      takeSlot: (execution) => this.#takeSlot(execution),
      leases: this.#leases,
      startHandler: (execution) => this.#startHandler(execution),
      freeSlot: (execution) => this.#freeSlot(execution),
      onStoreError: (error) => this.#watch.failed(error),
      clock,
      random,
      observer,
      signal: this.#ending.signal,
    };
    this.#listen();
  }

  /** Executions of this worker, from claim to final write. */
  get open(): number {
    return this.#open;
  }

  /** Whether the broker is told of jobs; while it is not, they are claimed from the database. */
  followBroker(isTold: boolean): void {
    this.#consumer?.follow(isTold);
  }

  condition(): Omit<WorkerCondition, "clockSkewMs"> {
    return { ...this.#sweep.stuck(), leasesFailing: this.#leases.failing };
  }

  /**
   * Refuse, give back what has not started, wait, abort, wait for the end or end it, write the last results. A job is
   * never given back while its handler may still run.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#drain();
    return this.#stopping;
  }

  async #drain(): Promise<void> {
    const { clock, settings } = this.#options;
    const still = this.#supply.stop();
    for (const queue of this.#queues) this.#sweep.giveBack(queue.takeStale(Number.POSITIVE_INFINITY));
    const isIdle = (): boolean => this.#running.size === 0;
    await this.#until(isIdle, settings.shutdownTimeoutMs);
    for (const execution of this.#running) execution.abort("shutdown", clock.monotonicMs());
    // The sweep ends what ignores the abort; a host that cannot even end it is left behind.
    await this.#until(isIdle, 2 * SHUTDOWN_CUT_OFF_MS);
    const claimsAreOver = new AbortController();
    void still.then(() => claimsAreOver.abort());
    await clock.sleep(LAST_WRITES_MS, claimsAreOver.signal);
    await this.#until(() => this.#open === 0, LAST_WRITES_MS);
    this.#ending.abort();
    await this.#sweep.stop();
  }

  #listen(): void {
    const byName = new Map(this.#queues.map((queue) => [queue.name, queue]));
    this.#options.doorbell.listen(
      {
        onRing: (topic) => {
          if (topic.kind === "queue") {
            const queue = byName.get(topic.queue);
            if (queue !== undefined) this.#supply.ring(queue);
          } else if (topic.kind === "cancel") this.#lookForCancel(topic.jobId);
          else if (topic.kind === "revision") {
            this.#unloadable.forget();
            this.#options.host.retryUnloadable();
            this.#consumer?.lookAtLimits();
          }
        },
        // Whatever was rung meanwhile is not known.
        onGap: () => {
          this.#leases.renewSoon();
          this.#supply.poll();
        },
      },
      this.#ending.signal,
    );
  }

  /** A ring is a hint; the renewal asks the database. */
  #lookForCancel(jobId: JobId): void {
    for (const execution of this.#leases.held()) {
      if (execution.jobId !== jobId) continue;
      this.#leases.renewSoon();
      void this.#leases.tick();
      return;
    }
  }

  #receive(queue: WorkQueue, jobs: readonly ClaimedJob[], sentMs: number): void {
    const nowMs = this.#options.clock.monotonicMs();
    const executions = jobs.map((job) => new Execution(job, sentMs, nowMs));
    for (const execution of executions) this.#leases.hold(execution);
    this.#admit(queue, executions);
  }

  /** From its claim to its final write or its return, a delivery's job goes through the same hands as any other. */
  async #deliver(delivery: DispatchDelivery, onHeld: () => void): Promise<Ending> {
    let started: Execution | null = null;
    const ending = await runDelivery(delivery, {
      ...this.#ports,
      takeSlot: async (execution) => {
        onHeld();
        if (!(await this.#takeSlot(execution))) return false;
        started = execution;
        return true;
      },
    });
    if (started !== null) this.#finished(started, ending);
    return ending;
  }

  #takeSlot(execution: Execution): Promise<boolean> {
    return new Promise((resolve) => {
      this.#turns.set(execution, resolve);
      this.#admit(this.#queueOf(execution), [execution]);
    });
  }

  #admit(queue: WorkQueue, executions: readonly Execution[]): void {
    const undefinedYet: Execution[] = [];
    this.#open += executions.length;
    queue.open += executions.length;
    for (const execution of executions) {
      const { definitionHash } = execution.job;
      execution.definition = definitionHash === null ? null : this.#definitions.get(definitionHash);
      if (execution.definition === null && definitionHash !== null) undefinedYet.push(execution);
      else this.#makeReady(queue, execution);
    }
    if (executions.length > 0) this.#sweep.soon();
    if (undefinedYet.length > 0) void this.#define(queue, undefinedYet);
    this.#startReady(queue);
  }

  async #define(queue: WorkQueue, executions: readonly Execution[]): Promise<void> {
    // The slot that a recovered job was claimed for stays free for it.
    const recovered = executions.filter(({ job }) => job.recovered).length;
    queue.reserved += recovered;
    try {
      await this.#definitions.load(executions.map(({ job }) => job.definitionHash ?? ""));
    } catch (error) {
      this.#watch.failed(error);
      this.#sweep.giveBack(executions);
      return;
    } finally {
      queue.reserved -= recovered;
    }
    for (const execution of executions) {
      execution.definition = this.#definitions.get(execution.job.definitionHash ?? "");
      this.#makeReady(queue, execution);
    }
    this.#startReady(queue);
  }

  #makeReady(queue: WorkQueue, execution: Execution): void {
    if (execution.definition !== null) this.#unloadable.noticeClaim(execution.definition);
    if (this.#stopping !== null) this.#sweep.giveBack([execution]);
    // A recovered job may be what kills its worker: it is started, not kept among others that would fall with it.
    else if (!execution.job.recovered) queue.makeReady(execution);
    else if (!this.#turns.has(execution) || queue.free > 0) this.#play(queue, execution);
    else this.#returnRecovered(queue, execution);
  }

  /** Its message could not tell that no slot was to be claimed ahead for it. */
  #returnRecovered(queue: WorkQueue, execution: Execution): void {
    queue.pace.distrust();
    this.#sweep.giveBack([execution]);
  }

  #startReady(queue: WorkQueue): void {
    while (queue.free > 0) {
      const execution = queue.takeReady();
      if (execution === null) return;
      this.#play(queue, execution);
    }
  }

  #play(queue: WorkQueue, execution: Execution): void {
    queue.running += 1;
    const takeSlot = this.#turns.get(execution);
    this.#turns.delete(execution);
    if (takeSlot !== undefined) takeSlot(true);
    else void runClaimed(execution, this.#ports).then((ending) => this.#finished(execution, ending));
  }

  #finished(execution: Execution, ending: Ending): void {
    if (ending !== "left") this.#watch.succeeded();
    this.#close(execution);
    this.#supply.landed(this.#queueOf(execution));
  }

  #close(execution: Execution): void {
    this.#open -= 1;
    const queue = this.#queueOf(execution);
    queue.open -= 1;
    this.#turns.get(execution)?.(false);
    this.#turns.delete(execution);
    this.#wakeWaiting();
  }

  #startHandler(execution: Execution): Promise<HandlerOutcome> {
    const { clock, observer, host, checkPayload } = this.#options;
    const { job, definition } = execution;
    const nowMs = clock.monotonicMs();
    if (execution.abortReason !== null) return Promise.resolve(NEVER_RAN);
    if (!this.#leases.isCertain(execution, nowMs)) {
      execution.abort("lease-doubtful", nowMs);
      return Promise.resolve(NEVER_RAN);
    }
    if (definition === null)
      return Promise.resolve({ kind: "unloadable", detail: `no job of type "${job.type}" is declared` });
    execution.startedMs = nowMs;
    execution.timeoutMs = job.timeoutMs ?? definition.timeoutMs;
    try {
      const problem = checkPayload(definition, job.payload);
      if (problem !== null) return Promise.resolve(refusedPayload(problem));
      const { timeoutMs } = execution;
      const alone = whyAlone(job, definition.policy);
      if (alone !== null) observer.observe({ kind: "job-alone", jobId: job.id, type: job.type, reason: alone });
      const onProgress = (percent: number, message: string | null): void =>
        this.#sweep.note(execution, { percent, message });
      const keepUntilMs = this.#leases.keepUntilMs(execution);
      execution.run = host.run({ job, definition, timeoutMs, alone: alone !== null, keepUntilMs, onProgress });
    } catch (error) {
      return Promise.resolve(notStarted(error));
    }
    this.#running.add(execution);
    observer.observe({ kind: "job-started", jobId: job.id, type: job.type, execution: job.execution });
    return execution.run.outcome;
  }

  #freeSlot(execution: Execution): void {
    const queue = this.#queueOf(execution);
    this.#running.delete(execution);
    queue.running -= 1;
    if (execution.startedMs !== null) queue.pace.record(this.#options.clock.monotonicMs() - execution.startedMs);
    if (this.#unloadable.hasNews()) this.#options.onUnloadable?.();
    // A recovered job that is asked for comes before what waits.
    this.#supply.pump();
    this.#startReady(queue);
    this.#wakeWaiting();
  }

  #queueOf(execution: Execution): WorkQueue {
    const queue = this.#queues.find(({ name }) => name === execution.job.queue);
    if (queue === undefined) throw new Error(`claimed from a queue this worker does not have: ${execution.job.queue}`);
    return queue;
  }

  /** Resolves when the condition holds after some execution has moved on, or after the bound. */
  async #until(isOver: () => boolean, boundMs: number): Promise<void> {
    if (isOver()) return;
    const over = new AbortController();
    this.#waiting = { isOver, wake: () => over.abort() };
    await this.#options.clock.sleep(boundMs, over.signal);
    this.#waiting = null;
  }

  #wakeWaiting(): void {
    if (this.#waiting?.isOver() === true) this.#waiting.wake();
  }
}

function refusedPayload(problem: string): HandlerOutcome {
  const message = `the payload does not fit the schema of its job type: ${problem}`;
  return { kind: "threw", error: { name: "PayloadError", message, stack: null, permanent: true, retryAfterMs: null } };
}

function notStarted(error: unknown): HandlerOutcome {
  const message = `the handler could not be started: ${describeError(error)}`;
  return { kind: "threw", error: { name: "Error", message, stack: null, permanent: false, retryAfterMs: null } };
}
