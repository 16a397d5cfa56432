import type { DeliveryStore, ExecutionStore, JobStore } from "../../protocol/ports/jobs.ts";
import type { LeaseStore } from "../../protocol/ports/leases.ts";
import type { OutboxStore } from "../../protocol/ports/outbox.ts";
import type { PauseStore } from "../../protocol/ports/pauses.ts";
import type { ScheduleStore } from "../../protocol/ports/schedules.ts";
import type { SlaStore } from "../../protocol/ports/slas.ts";
import type { Doorbell } from "../../protocol/ports/transport.ts";
import type { CleanupStore, WorkerStore } from "../../protocol/ports/workers.ts";
import type { MemoryDatabase } from "./database.ts";
import { createExecutionStore } from "./execution-store.ts";
import { createJobStore } from "./job-store.ts";
import { createLeaseStore } from "./lease-store.ts";
import { createOutboxStore } from "./outbox-store.ts";
import { createPauseStore } from "./pause-store.ts";
import { createScheduleStore } from "./schedule-store.ts";
import { createSlaStore } from "./sla-store.ts";
import { createWorkerStore } from "./worker-store.ts";

export type MemoryStore = JobStore &
  ExecutionStore &
  DeliveryStore &
  LeaseStore &
  ScheduleStore &
  PauseStore &
  SlaStore &
  OutboxStore &
  WorkerStore &
  CleanupStore;

/** Every store over one set of tables; each call is atomic since nothing in it waits. */
export function createMemoryStore(database: MemoryDatabase, doorbell: Pick<Doorbell, "ring"> = SILENT): MemoryStore {
  database.onAdmitted = (queue) => doorbell.ring({ kind: "queue", queue });
  return {
    ...createJobStore(database, doorbell),
    ...createExecutionStore(database, doorbell),
    ...createLeaseStore(database, doorbell),
    ...createScheduleStore(database, doorbell),
    ...createPauseStore(database, doorbell),
    ...createSlaStore(database, doorbell),
    ...createOutboxStore(database),
    ...createWorkerStore(database),
  };
}

const SILENT: Pick<Doorbell, "ring"> = { ring: () => {} };
