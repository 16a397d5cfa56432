import { countingIds } from "../../runtime/adapters/memory/seeded.ts";
import type { DispatchToken, WorkerId } from "../../runtime/core/ids.ts";
import type { ClaimedJob, Finish, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import type { Renewal } from "../../runtime/protocol/ports/leases.ts";
import type { Clock, EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";
import type { DoorbellTopic } from "../../runtime/protocol/ports/transport.ts";
import { startWorkerRole, type WorkerRole } from "../../runtime/services/worker-role.ts";
import { type Call, type Caller, connectStore } from "./connection.ts";
import type { Fault } from "./plan.ts";
import { type Stream, subStream } from "./random-streams.ts";
import { SimulatedHost } from "./simulated-host.ts";
import type { ProcessTransport } from "./simulated-transport.ts";
import type { Simulation } from "./simulation.ts";

/** One boot of a worker process: the real role on ports of the world. */
export class SimulatedProcess implements Caller {
  readonly simulation: Simulation;
  readonly slot: number;
  readonly name: string;
  readonly workerId: WorkerId;
  readonly host: SimulatedHost;
  readonly random: Stream;
  /** By token: this process's time before the last claim or renewal was sent whose answer it has heard. */
  readonly confirmedMs = new Map<DispatchToken, number>();
  /** Of the world: its last look at the leases set out then. */
  lookedAtMs = 0;
  readonly bornAtMs: number;
  alive = true;
  crashed = false;
  stopping = false;
  deaf = false;
  endedAtMs = 0;
  pausedUntilMs = 0;
  blockedUntilMs = 0;
  role: WorkerRole | null = null;
  readonly transport: ProcessTransport | null;
  readonly #rate: number;
  readonly #originMs: number;
  readonly #listeners = new Set<{ onRing(topic: DoorbellTopic): void; onGap(): void }>();

  constructor(
    simulation: Simulation,
    boot: { readonly slot: number; readonly number: number; readonly unloadable: ReadonlySet<string> },
  ) {
    const { world, plan } = simulation;
    this.simulation = simulation;
    this.slot = boot.slot;
    this.name = `worker ${boot.slot}.${boot.number}`;
    this.workerId = countingIds((boot.slot + 1) * 0x1000 + boot.number).workerId();
    this.random = subStream(plan.seed, `process ${boot.slot}.${boot.number}`);
    this.host = new SimulatedHost(this, boot.unloadable);
    this.bornAtMs = world.nowMs;
    this.#rate = 1 + (this.random.next() * 2 - 1) * plan.settings.drift;
    this.#originMs = this.random.whole(0, 1_000_000);
    this.transport = simulation.transport?.connect(this) ?? null;
    this.#start(boot);
  }

  monotonicMs(): number {
    return this.#originMs + (this.simulation.world.nowMs - this.bornAtMs) * this.#rate;
  }

  /** How long the world takes for what this machine's clock counts so. */
  worldMs(monotonicMs: number): number {
    return monotonicMs / this.#rate;
  }

  heldUntilMs(onThread: boolean): number {
    return onThread ? this.pausedUntilMs : Math.max(this.pausedUntilMs, this.blockedUntilMs);
  }

  crash(fault: Fault & { readonly kind: "crash" }): void {
    this.#die("crash");
    this.simulation.slots.restart(this.slot, fault);
  }

  killedByJob(): void {
    this.simulation.reach.met("process killed by a job");
    this.#die("killed by its job");
    this.simulation.slots.restart(this.slot, { restartMs: 300, code: "good" });
  }

  kill(): void {
    this.#die("kill");
  }

  /** As SIGTERM asks for it; resolves when the process has ended. */
  async stop(): Promise<void> {
    const { world, auditor } = this.simulation;
    if (this.role === null) return this.#die("terminated while it started");
    this.stopping = true;
    world.trace.note(world.nowMs, this.name, "stop", "asked");
    await this.role.stop();
    if (!this.alive) return;
    this.alive = false;
    this.endedAtMs = world.nowMs;
    this.transport?.connection.kill();
    world.trace.note(world.nowMs, this.name, "stop", "ended");
    auditor.stopped(this);
  }

  ring(topic: DoorbellTopic): void {
    for (const listener of this.#listeners) listener.onRing(topic);
  }

  tellGap(): void {
    for (const listener of this.#listeners) listener.onGap();
  }

  heard({ method, args }: Call, answer: unknown, sentMs: number): void {
    if (method === "claimDelivery") {
      if (answer !== null && answer !== "limited") this.confirmedMs.set((answer as ClaimedJob).token, sentMs);
    } else if (method === "claimJobs") {
      for (const { token } of (answer as { readonly jobs: readonly ClaimedJob[] }).jobs)
        this.confirmedMs.set(token, sentMs);
    } else if (method === "claimRecovered" && answer !== null) {
      this.confirmedMs.set((answer as ClaimedJob).token, sentMs);
    } else if (method === "renewLeases") {
      const { renewed, lost } = answer as Renewal;
      for (const { token } of renewed) this.confirmedMs.set(token, sentMs);
      for (const { token } of lost) this.confirmedMs.delete(token);
    } else if (method === "finishJob") this.confirmedMs.delete((args[1] as Finish).token);
    else if (method === "returnClaims") {
      for (const { token } of args[1] as readonly Ownership[]) this.confirmedMs.delete(token);
    }
  }

  #die(how: string): void {
    if (!this.alive) return;
    const { world, reach } = this.simulation;
    if ((this.role?.openExecutions() ?? 0) > 0) reach.met("crash with executions open");
    this.alive = false;
    this.crashed = true;
    this.endedAtMs = world.nowMs;
    this.host.running.clear();
    this.transport?.connection.kill();
    this.simulation.turns.died(this);
    world.trace.note(world.nowMs, this.name, "process", how);
  }

  #clock(): Clock {
    const { world } = this.simulation;
    return {
      monotonicMs: () => this.monotonicMs(),
      sleep: (ms, signal) => {
        // What is dead wakes no more.
        if (!this.alive) return new Promise(() => {});
        if (signal.aborted) return Promise.resolve();
        return new Promise((resolve) => {
          const wake = (): void => {
            event.cancelled = true;
            signal.removeEventListener("abort", wake);
            resolve();
          };
          // Timers of Node count whole milliseconds, one at least.
          const event = world.after(Math.max(1, Math.ceil(ms)) / this.#rate + 0.001, wake, this);
          signal.addEventListener("abort", wake, { once: true });
        });
      },
    };
  }

  #start(boot: { readonly slot: number; readonly number: number }): void {
    const { simulation, workerId, name } = this;
    const { settings } = simulation.plan;
    const { concurrency } = settings;
    const started = startWorkerRole({
      info: { id: workerId, name, host: "world", pid: boot.number, version: "0" },
      store: connectStore(simulation, this),
      ...(this.transport === null ? {} : { dispatch: this.transport }),
      host: this.host,
      doorbell: {
        listen: (listener, signal) => {
          this.#listeners.add(listener);
          signal.addEventListener("abort", () => this.#listeners.delete(listener), { once: true });
        },
      },
      ids: countingIds((boot.slot + 1) * 0x1000 + boot.number),
      clock: this.#clock(),
      random: this.random,
      observer: { observe: (event) => this.#observe(event) },
      checkPayload: () => null,
      settings: {
        worker: {
          queues: [
            { name: "default", concurrency },
            { name: "narrow", concurrency },
          ],
          leaseDurationMs: settings.leaseMs,
          leaseRenewalMs: settings.renewalMs,
          heartbeatMs: 5_000,
          maxClockSkewMs: 30_000,
          shutdownTimeoutMs: settings.shutdownTimeoutMs,
        },
        scheduler: { intervalMs: 2_000, batchSize: 200 },
        recovery: { intervalMs: settings.recoveryMs },
        retention: { succeededMs: 1, cancelledMs: 1, failedMs: 1, workersMs: 86_400_000 },
      },
    });
    started.then(
      (role) => {
        this.role = role;
        simulation.world.trace.note(simulation.world.nowMs, name, "process", "ready");
      },
      () => {
        this.#die("could not register");
        simulation.slots.restart(this.slot, { restartMs: 1_000, code: "good" });
      },
    );
  }

  #observe(event: EngineEvent): void {
    if (!this.alive) return;
    const { world, auditor } = this.simulation;
    world.trace.note(world.nowMs, this.name, "event", event.kind);
    auditor.observed(this, event);
  }
}
