import { createMemoryBroker, type MemoryConnection } from "../../runtime/adapters/memory/broker.ts";
import { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import { createMemoryDoorbell } from "../../runtime/adapters/memory/doorbell.ts";
import { type Connection, connect } from "../../runtime/adapters/memory/faulty-store.ts";
import {
  createMemoryHandlerHost,
  type MemoryHandlerHost,
  type Script,
} from "../../runtime/adapters/memory/handler-host.ts";
import { createMemoryLocks } from "../../runtime/adapters/memory/locks.ts";
import { countingIds, seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { createMemoryStore, type MemoryStore } from "../../runtime/adapters/memory/store.ts";
import { createVirtualClock, type VirtualClock } from "../../runtime/adapters/memory/virtual-clock.ts";
import type { ScheduleSpec } from "../../runtime/config/objects.ts";
import type { JobId, WorkerId } from "../../runtime/core/ids.ts";
import type { NewJob } from "../../runtime/protocol/ports/jobs.ts";
import type { EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";
import type { Doorbell } from "../../runtime/protocol/ports/transport.ts";
import { Worker, type WorkerOptions, type WorkerSettings } from "../../runtime/services/worker.ts";
import { startWorkerRole, type WorkerRole } from "../../runtime/services/worker-role.ts";
import { jobDefinition } from "../contract/definitions.ts";
import type { JobView } from "../contract/store-under-test.ts";
import { declareJob, viewJob } from "./memory-view.ts";

export const BASE_MS = Date.UTC(2026, 0, 5, 12, 0, 0);

export interface Machine {
  readonly id: WorkerId;
  readonly clock: VirtualClock;
  readonly connection: Connection<MemoryStore>;
  readonly host: MemoryHandlerHost;
  readonly events: EngineEvent[];
  /** Its own connection to the broker; only with a broker's transport. */
  readonly broker: MemoryConnection;
  /** Rings do not reach it: its process is paused or gone. */
  asleep: boolean;
}

interface MachineOptions {
  readonly scripts?: Readonly<Record<string, Script>>;
  readonly clock?: VirtualClock;
  readonly checkPayload?: WorkerOptions["checkPayload"];
}

/** An installation in memory: one database with its own clock, and machines with theirs, all moved by hand. */
export class Engine {
  readonly clock = createVirtualClock();
  /** Moves only the database's clock. */
  databaseOffsetMs = 0;
  readonly database = new MemoryDatabase(() => BASE_MS + this.clock.monotonicMs() + this.databaseOffsetMs);
  readonly doorbell = createMemoryDoorbell();
  readonly store = createMemoryStore(this.database, this.doorbell);
  readonly ids = countingIds();
  readonly broker = createMemoryBroker({ clock: this.clock, random: seededRandom(11) });
  readonly locks = createMemoryLocks();
  readonly #stops: (() => Promise<void>)[] = [];

  constructor() {
    declareJob(this.database, jobDefinition({ type: "work" }));
  }

  declare(...options: Parameters<typeof jobDefinition>): void {
    declareJob(this.database, jobDefinition(...options));
  }

  declareSchedule(name: string, spec: ScheduleSpec, nextFireAt: Date): void {
    this.database.schedules.set(name, {
      name,
      spec,
      timingHash: "t1",
      nextFireAtMs: nextFireAt.getTime(),
      lastJobId: null,
      awaitsFinish: false,
      firedColdStart: 0,
      ...(spec.sla === undefined
        ? {}
        : {
            sla: {
              dueAtMs: this.database.nowMs(),
              sinceMs: this.database.nowMs(),
              judgedAtMs: null,
              successAtMs: null,
            },
          }),
    });
  }

  async enqueue(options: Partial<NewJob> = {}): Promise<JobId> {
    const [id] = await this.enqueueMany(1, options);
    return id as JobId;
  }

  async enqueueMany(count: number, options: Partial<NewJob> = {}): Promise<JobId[]> {
    const plain = {
      type: "work",
      queue: null,
      payload: {},
      priority: 0,
      due: null,
      maxAttempts: null,
      timeoutMs: null,
    };
    const jobs = Array.from({ length: count }, () => ({ ...plain, id: this.ids.jobId(), ...options }));
    await this.store.insertJobs(jobs);
    await this.clock.settle();
    return jobs.map((job) => job.id);
  }

  job(id: JobId): JobView {
    const view = viewJob(this.database, id);
    if (view === null) throw new Error(`there is no job ${id}`);
    return view;
  }

  machine({ scripts = {}, clock = this.clock }: MachineOptions = {}): Machine {
    return {
      id: this.ids.workerId(),
      clock,
      connection: connect(this.store),
      host: createMemoryHandlerHost(scripts),
      events: [],
      broker: this.broker.connect(),
      asleep: false,
    };
  }

  #doorbellOf(machine: Machine): Pick<Doorbell, "listen"> {
    return {
      listen: (listener, signal) =>
        this.doorbell.listen(
          {
            onRing: (topic) => {
              if (!machine.asleep) listener.onRing(topic);
            },
            onGap: () => listener.onGap(),
          },
          signal,
        ),
    };
  }

  /** A worker without duties. */
  async worker(
    options: MachineOptions & { readonly settings?: Partial<WorkerSettings> } = {},
  ): Promise<Machine & { readonly worker: Worker }> {
    const machine = this.machine(options);
    const queues = options.settings?.queues ?? [{ name: "default", concurrency: 2 }];
    await this.store.registerWorker({ id: machine.id, name: "w", host: "h", pid: 1, version: "0", queues });
    const worker = new Worker({
      workerId: machine.id,
      store: machine.connection.store,
      host: machine.host,
      doorbell: this.#doorbellOf(machine),
      clock: machine.clock,
      random: seededRandom(7),
      observer: { observe: (event) => void machine.events.push(event) },
      checkPayload: options.checkPayload ?? (() => null),
      settings: {
        queues,
        leaseMs: 60_000,
        renewalMs: 10_000,
        shutdownTimeoutMs: 30_000,
        ...options.settings,
      },
    });
    this.#stops.push(() => worker.stop());
    await this.clock.settle();
    return Object.assign(machine, { worker });
  }

  /** A whole worker process: worker, heartbeat, recovery and its part in the three duties. */
  async role(
    options: MachineOptions & {
      readonly concurrency?: number;
      readonly shutdownTimeoutMs?: number;
      readonly wallMs?: () => number;
      /** What its settings say; absent: postgres. */
      readonly transport?: "rabbitmq";
    } = {},
  ): Promise<Machine & { readonly role: WorkerRole }> {
    const machine = this.machine(options);
    const role = await startWorkerRole({
      info: { id: machine.id, name: "same-name", host: "h", pid: 1, version: "0" },
      store: machine.connection.store,
      host: machine.host,
      doorbell: this.#doorbellOf(machine),
      ids: this.ids,
      clock: machine.clock,
      random: seededRandom(7),
      observer: { observe: (event) => void machine.events.push(event) },
      checkPayload: () => null,
      ...(options.wallMs === undefined ? {} : { wallMs: options.wallMs }),
      ...(options.transport === undefined
        ? {}
        : { dispatch: { transport: options.transport, broker: machine.broker, locks: this.locks } }),
      settings: {
        worker: {
          queues: [{ name: "default", concurrency: options.concurrency ?? 2 }],
          leaseDurationMs: 60_000,
          leaseRenewalMs: 10_000,
          heartbeatMs: 5_000,
          maxClockSkewMs: 30_000,
          shutdownTimeoutMs: options.shutdownTimeoutMs ?? 30_000,
        },
        scheduler: { intervalMs: 2_000, batchSize: 200 },
        recovery: { intervalMs: 10_000 },
        retention: { succeededMs: 1, cancelledMs: 1, failedMs: 1, workersMs: 86_400_000 },
      },
    });
    this.#stops.push(() => role.stop());
    await this.clock.settle();
    return Object.assign(machine, { role });
  }

  /** Stops everything that still runs, so that no test leaves loops behind. */
  async close(): Promise<void> {
    const stopped = Promise.all(this.#stops.map((stop) => stop()));
    await this.clock.advance(120_000);
    await stopped;
  }
}

/** A handler that takes its time by a clock and stops when it is asked to. */
export function takes(clock: VirtualClock, ms: number): Script {
  return async (_payload, { signal }) => {
    await clock.sleep(ms, signal);
    if (signal.aborted) throw new Error(`aborted: ${String(signal.reason)}`);
    return { done: true };
  };
}

/** A handler that takes its time and does not listen. */
export function ignoresAbortFor(clock: VirtualClock, ms: number): Script {
  return async () => {
    await clock.sleep(ms, new AbortController().signal);
    return { done: true };
  };
}

export function kinds(events: readonly EngineEvent[]): string[] {
  return events.map((event) => event.kind);
}
