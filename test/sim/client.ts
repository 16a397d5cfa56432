import type { MemoryStore } from "../../runtime/adapters/memory/store.ts";
import type { ScheduleSpec } from "../../runtime/config/objects.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { RejectedError } from "../../runtime/protocol/ports/errors.ts";
import type { CancelOutcome } from "../../runtime/protocol/ports/jobs.ts";
import { nextFire } from "../../runtime/time/next-fire.ts";
import { type Caller, connectStore } from "./connection.ts";
import { CLIENT, type HandlerStep, type Work } from "./plan.ts";
import { declareTypes } from "./scene.ts";
import type { Simulation } from "./simulation.ts";

/** What became of a request, as the client that sent it knows it. */
export type Answer = "pending" | "accepted" | "refused" | "unknown";

/** People and programs: sends the work of a plan and keeps its own ledger of what was answered. */
export class Client implements Caller {
  readonly slot = CLIENT;
  readonly name = "client";
  readonly alive = true;
  readonly crashed = false;
  /** By id of the job. */
  readonly ledger = new Map<JobId, Answer>();
  readonly #simulation: Simulation;
  readonly #store: MemoryStore;
  readonly #jobs = new Map<string, JobId>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#store = connectStore(simulation, this);
  }

  heldUntilMs(): number {
    return 0;
  }

  monotonicMs(): number {
    return this.#simulation.world.nowMs;
  }

  crash(): void {}

  heard(): void {}

  start(): void {
    const { world, plan, ids } = this.#simulation;
    for (const item of plan.work) {
      if (item.kind === "job") {
        this.#jobs.set(item.id, ids.jobId());
        world.after(item.atMs, () => void this.#submit(item));
      } else if (item.kind === "schedule") this.#declare(item);
      else world.after(item.atMs, () => void this.#act(item));
    }
  }

  async #submit(item: Work & { readonly kind: "job" }): Promise<void> {
    const id = this.#jobs.get(item.id) as JobId;
    this.ledger.set(id, "pending");
    const { type, priority, delayMs, maxAttempts, timeoutMs, steps } = item;
    try {
      await this.#store.insertJobs([
        {
          id,
          type,
          queue: null,
          payload: { steps: steps.map((step: HandlerStep) => ({ ...step })) },
          priority,
          due: delayMs === 0 ? null : { afterMs: delayMs },
          maxAttempts,
          timeoutMs,
          concurrencyKey: item.key,
        },
      ]);
      // A database that forgets may have done so before the answer came.
      if (this.ledger.get(id) === "pending") this.ledger.set(id, "accepted");
    } catch (error) {
      this.ledger.set(id, error instanceof RejectedError ? "refused" : "unknown");
    }
  }

  async #act(item: Exclude<Work, { readonly kind: "job" | "schedule" }>): Promise<void> {
    const { auditor, ids, database, plan } = this.#simulation;
    try {
      if (item.kind === "revision") {
        const revision = (database.types.get("work")?.revision ?? 0) + 1;
        declareTypes(database, { revision, narrow: plan.settings.narrow });
        this.#simulation.ring({ kind: "revision" });
      } else if (item.kind === "trigger") {
        await this.#store.triggerSchedule(item.schedule, ids.jobId());
      } else {
        const id = this.#jobs.get(item.job);
        if (id === undefined) return;
        if (item.kind === "requeue") await this.#store.requeueJob(id);
        else auditor.cancelAnswered(id, (await this.#store.cancelJob(id)) satisfies CancelOutcome);
      }
    } catch {
      // Whatever became of it, the auditor has seen it in the tables.
    }
  }

  #declare(item: Work & { readonly kind: "schedule" }): void {
    const { database, world } = this.#simulation;
    const spec: ScheduleSpec = {
      job: item.type,
      timing: { kind: "every", intervalMs: item.intervalMs, from: item.from },
      timeZone: "UTC",
      payload: {},
      concurrencyPolicy: item.concurrencyPolicy,
      misfirePolicy: item.misfirePolicy,
      runOnStart: item.runOnStart,
      suspend: false,
    };
    const first = nextFire(
      { kind: "every", intervalMs: item.intervalMs, from: "epoch" },
      new Date(world.databaseNowMs()),
    );
    database.schedules.set(item.id, {
      name: item.id,
      spec,
      timingHash: "t1",
      nextFireAtMs: first?.getTime() ?? null,
      lastJobId: null,
      awaitsFinish: false,
      firedColdStart: 0,
    });
  }
}
