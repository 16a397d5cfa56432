import type { MemoryStore } from "../../runtime/adapters/memory/store.ts";
import type { ScheduleSpec } from "../../runtime/config/objects.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { RejectedError } from "../../runtime/protocol/ports/errors.ts";
import type { CancelOutcome, InsertOnceOutcome, NewJob } from "../../runtime/protocol/ports/jobs.ts";
import { nextFire } from "../../runtime/time/next-fire.ts";
import { type Caller, connectStore } from "./connection.ts";
import {
  CLIENT,
  type HandlerStep,
  type SimulatedTransportName,
  UNIQUE_KEYS,
  type UniqueKey,
  type Work,
} from "./plan.ts";
import { declareTypes } from "./scene.ts";
import type { Simulation } from "./simulation.ts";

/** A request with a key of idempotency is sent so often, and so long after it was not answered. */
const ONCE_TRIES = 4;
const ONCE_WAIT_MS = 700;

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
  /** Ids under which one request with a key was sent, by each of them. */
  readonly sameRequest = new Map<JobId, ReadonlySet<JobId>>();
  readonly uniqueKeys = new Map<JobId, UniqueKey>();
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

  /** Somebody starts a process with another setting. */
  switchTransport(to: SimulatedTransportName): void {
    // What became of it is seen in the tables.
    void this.#store.setTransport(to).catch(() => undefined);
  }

  async #submit(item: Work & { readonly kind: "job" }): Promise<void> {
    const id = this.#jobs.get(item.id) as JobId;
    const ids = new Set([id]);
    if (item.once !== true) return void (await this.#send(item, id, (job) => this.#store.insertJobs([job])));
    const once = { scope: "client", key: item.id, requestHash: item.id, retainMs: 86_400_000 };
    for (let tries = 0; tries < ONCE_TRIES; tries++) {
      const fresh = tries === 0 ? id : this.#simulation.ids.jobId();
      ids.add(fresh);
      this.sameRequest.set(fresh, ids);
      if (await this.#send(item, fresh, (job) => this.#store.insertJobsOnce([job], once))) return;
      await new Promise<void>((resolve) => this.#simulation.world.after(ONCE_WAIT_MS, resolve));
    }
  }

  /** True: an answer has come, and the ledger knows which job it named. */
  async #send(
    item: Work & { readonly kind: "job" },
    id: JobId,
    insert: (job: NewJob) => Promise<InsertOnceOutcome>,
  ): Promise<boolean> {
    const { type, priority, delayMs, maxAttempts, timeoutMs, steps, unique } = item;
    this.ledger.set(id, "pending");
    if (unique !== undefined) this.uniqueKeys.set(id, unique);
    try {
      const outcome = await insert({
        id,
        type,
        queue: null,
        payload: { steps: steps.map((step: HandlerStep) => ({ ...step })) },
        priority,
        due: delayMs === 0 ? null : { afterMs: delayMs },
        maxAttempts,
        timeoutMs,
        concurrencyKey: item.key,
        ...(unique === undefined ? {} : { unique: { key: unique, forMs: null, until: UNIQUE_KEYS[unique] } }),
      });
      // A database that forgets may have done so before the answer came.
      if (this.ledger.get(id) === "pending") this.#note(item, id, outcome);
      return true;
    } catch (error) {
      this.ledger.set(id, error instanceof RejectedError ? "refused" : "unknown");
      return false;
    }
  }

  #note(item: Work, id: JobId, outcome: InsertOnceOutcome): void {
    const { reach } = this.#simulation;
    const [named] = "created" in outcome ? outcome.created : "replayed" in outcome ? outcome.replayed : [];
    this.ledger.set(id, named?.id === id ? "accepted" : "refused");
    if (named === undefined) return;
    this.#jobs.set(item.id, named.id);
    if (named.duplicate === true) reach.met("answered with the job that counts already");
    if (!("replayed" in outcome)) return;
    reach.met("answered a second time with what was made the first time");
    if (this.sameRequest.get(id)?.has(named.id) === true) this.ledger.set(named.id, "accepted");
  }

  /** The database has forgotten: a request that it carries out only now is new to it. */
  forgotten(): void {
    for (const id of this.sameRequest.keys()) this.ledger.set(id, "unknown");
  }

  async #act(item: Exclude<Work, { readonly kind: "job" | "schedule" }>): Promise<void> {
    const { auditor, ids, database, plan } = this.#simulation;
    try {
      if (item.kind === "revision") {
        const revision = (database.types.get("work")?.revision ?? 0) + 1;
        declareTypes(database, { revision, ...plan.settings });
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
