import type { RuntimeSettings } from "../config/objects.ts";
import type { HandlerHost } from "../protocol/ports/handlers.ts";
import type { DeliveryStore, ExecutionStore } from "../protocol/ports/jobs.ts";
import type { LeaseStore } from "../protocol/ports/leases.ts";
import type { OutboxStore, Transport } from "../protocol/ports/outbox.ts";
import type { PauseStore } from "../protocol/ports/pauses.ts";
import type { ScheduleStore } from "../protocol/ports/schedules.ts";
import type { SlaStore } from "../protocol/ports/slas.ts";
import type { Ids } from "../protocol/ports/surroundings.ts";
import type { Broker, Doorbell, LockManager } from "../protocol/ports/transport.ts";
import type { CleanupStore, WorkerInfo, WorkerStore } from "../protocol/ports/workers.ts";
import { startCleanup } from "./cleanup.ts";
import { ClockSkew } from "./clock-skew.ts";
import { startDispatching } from "./dispatching.ts";
import { startHeartbeat } from "./heartbeat.ts";
import { startLeadership } from "./leadership.ts";
import { startPromoter } from "./promoter.ts";
import { startRecovery } from "./recovery.ts";
import { startRedispatch } from "./redispatch.ts";
import { startScheduler } from "./scheduler.ts";
import { startSlaWatch } from "./sla-watch.ts";
import type { LoopSurroundings } from "./supervised-loop.ts";
import { Worker, type WorkerOptions } from "./worker.ts";

export interface WorkerRoleOptions extends LoopSurroundings {
  readonly info: Omit<WorkerInfo, "queues">;
  readonly store: ExecutionStore &
    DeliveryStore &
    OutboxStore &
    LeaseStore &
    ScheduleStore &
    PauseStore &
    SlaStore &
    WorkerStore &
    CleanupStore;
  /** Absent: the PostgreSQL transport. */
  readonly dispatch?: {
    readonly transport: Transport;
    readonly broker: Pick<Broker, "publish" | "condition" | "subscribe"> | null;
    readonly locks: Pick<LockManager, "acquire">;
  };
  readonly host: HandlerHost;
  readonly doorbell: Pick<Doorbell, "listen">;
  readonly ids: Pick<Ids, "jobId">;
  readonly settings: Pick<RuntimeSettings, "worker" | "scheduler" | "recovery" | "retention">;
  readonly checkPayload: WorkerOptions["checkPayload"];
  /** See ClockSkew; absent: the clock is not compared with the database's. */
  readonly wallMs?: () => number;
}

/** A process that takes jobs and stands for election to the three duties. */
export interface WorkerRole {
  /** Executions between claim and final write. */
  openExecutions(): number;
  /** Whether it is heard by the database and not on its way out, and whether it keeps what it runs. */
  readiness(): { readonly database: boolean; readonly leases: boolean };
  /** Lays down the duties at once, drains the worker, says goodbye. The host is the caller's to close. */
  stop(): Promise<void>;
}

/** Registers and starts everything a worker process does. Rejects when the database cannot be reached to register. */
export async function startWorkerRole(options: WorkerRoleOptions): Promise<WorkerRole> {
  const { info, store, host, doorbell, ids, settings, checkPayload, clock, random, observer } = options;
  const { transport, broker, locks } = options.dispatch ?? { transport: "postgres", broker: null, locks: null };
  const surroundings: LoopSurroundings = { clock, random, observer };
  const workerId = info.id;
  const { queues, leaseDurationMs, leaseRenewalMs, heartbeatMs, shutdownTimeoutMs } = settings.worker;
  const registered = { ...info, queues };
  await store.registerWorker(registered);

  const skew = new ClockSkew({ clock, observer, wallMs: options.wallMs, limitMs: settings.worker.maxClockSkewMs });
  const worker = new Worker({
    ...surroundings,
    workerId,
    store,
    brokerSupply: broker === null ? null : { broker, locks },
    host,
    doorbell,
    checkPayload,
    settings: { queues, leaseMs: leaseDurationMs, renewalMs: leaseRenewalMs, shutdownTimeoutMs },
    onUnloadable: () => heartbeat.wake(),
  });
  const heartbeat = startHeartbeat({
    ...surroundings,
    store,
    worker: registered,
    host,
    condition: () => worker.condition(),
    skew,
    intervalMs: heartbeatMs,
  });

  const dispatching = startDispatching({
    ...surroundings,
    store,
    doorbell,
    transport,
    broker,
    onTold: (isTold) => worker.followBroker(isTold),
  });

  const mayLead = (): boolean => !skew.tooLarge;
  const scheduling = startLeadership({
    ...surroundings,
    store,
    mayLead,
    workerId,
    duty: "scheduling",
    lead: () => [
      startScheduler({ ...surroundings, store, ids, ...settings.scheduler }),
      startPromoter({ ...surroundings, store }),
      startSlaWatch({ ...surroundings, store, ids }),
    ],
  });
  const recovering = startLeadership({
    ...surroundings,
    store,
    mayLead,
    workerId,
    duty: "recovery",
    lead: () => [startRedispatch({ ...surroundings, store, onWritten: () => dispatching.wake() })],
  });
  const recovery = startRecovery({
    ...surroundings,
    store,
    leaseMs: leaseDurationMs,
    intervalMs: settings.recovery.intervalMs,
    isLeading: recovering.isLeading,
  });
  const cleaning = startLeadership({
    ...surroundings,
    store,
    mayLead,
    workerId,
    duty: "cleanup",
    lead: () => startCleanup({ ...surroundings, store, retainWorkersMs: settings.retention.workersMs }),
  });

  const listening = new AbortController();
  doorbell.listen(
    {
      onRing: (topic) => {
        if (topic.kind === "schedules" || topic.kind === "revision") scheduling.wake();
      },
      onGap: () => scheduling.wake(),
    },
    listening.signal,
  );

  let stopped: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    heartbeat.drain();
    listening.abort();
    // The duties go first: a worker that drains for minutes must not keep others from planning.
    const duties = [scheduling, recovering, cleaning].map((duty) => duty.stop());
    await Promise.all([...duties, recovery.stop(), worker.stop()]);
    // What it gave back is told of before it goes, when nobody else does it meanwhile.
    await dispatching.stop();
    await heartbeat.stop();
    await store.deregisterWorker(workerId).catch(() => undefined);
  };
  return {
    openExecutions: () => worker.open,
    readiness: () => ({ database: heartbeat.isHeard(), leases: !worker.condition().leasesFailing }),
    stop: () => (stopped ??= stop()),
  };
}
