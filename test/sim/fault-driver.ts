import type { Call } from "./connection.ts";
import { CLIENT, type Code, type Fault, type TransportFault } from "./plan.ts";
import { takeSnapshot } from "./rollback.ts";
import { BUNDLES } from "./scene.ts";
import { SimulatedProcess } from "./simulated-process.ts";
import type { Simulation } from "./simulation.ts";

type Outage = Pick<Fault & { readonly kind: "outage" }, "slot" | "mode" | "forMs">;

/** Brings the faults of a plan about, at their instants and at their calls, until the world is healed. */
export class FaultDriver {
  /** How many of each kind came about. */
  readonly met: Record<string, number> = {};
  readonly #simulation: Simulation;
  readonly #calls = new Map<string, Fault & { readonly kind: "call" }>();
  readonly #crashes = new Map<string, Fault & { readonly kind: "crash" }>();
  readonly #counts = new Map<string, number>();
  readonly #outages = new Map<Outage, number>();
  #healed = false;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    for (const fault of simulation.plan.faults) {
      if (fault.kind === "call") this.#calls.set(`${fault.slot}/${fault.method}/${fault.nth}`, fault);
      else if (fault.kind === "crash") this.#crashes.set(`${fault.slot}/${fault.method}/${fault.nth}`, fault);
    }
  }

  start(): void {
    const { world, plan } = this.#simulation;
    for (const fault of plan.faults) {
      if (fault.kind === "call" || fault.kind === "crash") continue;
      if (fault.kind === "rollback") {
        world.after(Math.max(0, fault.atMs - fault.windowMs), () => {
          if (this.#healed) return;
          const snapshot = takeSnapshot(this.#simulation.database);
          world.after(Math.min(fault.atMs, fault.windowMs), () => {
            if (this.#healed) return;
            this.#note(fault, "rollback");
            this.#trouble(null, 0, { isBlind: false });
            this.#simulation.turns.loseAll();
            this.#simulation.auditor.rolledBack(snapshot.restore());
          });
        });
      } else
        world.after(fault.atMs, () => {
          if (!this.#healed) this.#bringAbout(fault);
        });
    }
  }

  /** What this call of a slot meets. */
  onCall(
    slot: number,
    method: string,
  ): { readonly fault: (Fault & { kind: "call" }) | null; readonly crash: (Fault & { kind: "crash" }) | null } {
    if (this.#healed || (this.#calls.size === 0 && this.#crashes.size === 0)) return NOTHING;
    const key = `${slot}/${method}`;
    const nth = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, nth);
    const fault = this.#calls.get(`${key}/${nth}`) ?? null;
    const crash = this.#crashes.get(`${key}/${nth}`) ?? null;
    if (fault !== null) {
      this.#note(fault, `call ${fault.effect}`);
      this.#trouble(slot, fault.delayMs, { isOfProcess: true, isBlind: false });
      // The caller of a late statement gives it up before it takes effect, and sees again from then on.
      const unheardMs = fault.effect === "late" ? fault.delayMs / 2 : fault.delayMs;
      if (method === "observeLeases") this.#trouble(slot, unheardMs, { isOfProcess: true });
    }
    if (crash !== null) this.#note(crash, `crash ${crash.when}`);
    return fault === null && crash === null ? NOTHING : { fault, crash };
  }

  /** From now on nothing of a slot gets through, for more than a lease. */
  cut(slot: number): void {
    const { world, plan } = this.#simulation;
    this.#cutOff({ slot, mode: "black-hole", forMs: 1.6 * plan.settings.leaseMs }, world.nowMs);
  }

  #cutOff(outage: Outage, nowMs: number): void {
    this.#outages.set(outage, nowMs + outage.forMs);
    this.#trouble(outage.slot, outage.forMs);
  }

  #trouble(
    slot: number | null,
    forMs: number,
    kind: { readonly isOfProcess?: boolean; readonly isBlind?: boolean } = {},
  ): void {
    const { isOfProcess = false, isBlind = true } = kind;
    const { world, health } = this.#simulation;
    health.trouble(slot, { fromMs: world.nowMs, untilMs: world.nowMs + forMs, isOfProcess, isBlind });
  }

  outageOf(slot: number): "refused" | "black-hole" | null {
    if (this.#outages.size === 0) return null;
    const { nowMs } = this.#simulation.world;
    for (const [fault, untilMs] of this.#outages) {
      if (untilMs <= nowMs) this.#outages.delete(fault);
      else if (fault.slot === null || fault.slot === slot) return fault.mode;
    }
    return null;
  }

  heal(): void {
    this.#healed = true;
    this.#outages.clear();
    const { nowMs } = this.#simulation.world;
    this.#simulation.health.heal(nowMs);
    for (const process of this.#simulation.slots.alive()) {
      process.pausedUntilMs = Math.min(process.pausedUntilMs, nowMs);
      process.blockedUntilMs = Math.min(process.blockedUntilMs, nowMs);
      process.deaf = false;
    }
    this.#simulation.transport?.heal();
    this.#simulation.world.release();
  }

  #bringAbout(fault: Exclude<Fault, { readonly kind: "call" | "crash" | "rollback" }>): void {
    const { world, slots, reach, plan } = this.#simulation;
    if (fault.kind === "outage") {
      this.#note(fault, `outage ${fault.mode}`);
      this.#cutOff(fault, world.nowMs);
      return;
    }
    if (fault.kind === "clock-step") {
      this.#note(fault, "clock step");
      world.databaseStepMs += fault.stepMs;
      return;
    }
    if (isOfTransport(fault)) {
      this.#note(fault, nameOf(fault));
      this.#simulation.transport?.bringAbout(fault);
      return;
    }
    const process = slots.at(fault.slot);
    if (process === null) return;
    this.#note(fault, fault.kind);
    switch (fault.kind) {
      case "kill":
        process.kill();
        slots.restart(fault.slot, fault);
        return;
      case "stop":
        if (process.stopping) return;
        if (fault.twice) {
          reach.met("stop asked for twice");
          world.after(20, () => void process.stop(), process);
        }
        slots.stop(process, fault);
        return;
      case "pause":
        process.pausedUntilMs = Math.max(process.pausedUntilMs, world.nowMs + fault.forMs);
        this.#trouble(fault.slot, fault.forMs, { isOfProcess: true });
        world.after(fault.forMs, () => world.release());
        if (fault.forMs > plan.settings.leaseMs && process.host.running.size > 0) reach.met("pause beyond the lease");
        return;
      case "block":
        process.blockedUntilMs = Math.max(process.blockedUntilMs, world.nowMs + fault.forMs);
        this.#trouble(fault.slot, fault.forMs, { isOfProcess: true });
        world.after(fault.forMs, () => world.release());
        return;
      case "deaf":
        process.deaf = true;
        world.after(
          fault.forMs,
          () => {
            process.deaf = false;
            if (fault.gapTold) process.tellGap();
          },
          process,
        );
        return;
    }
  }

  #note(fault: Fault, kind: string): void {
    this.met[kind] = (this.met[kind] ?? 0) + 1;
    const { world } = this.#simulation;
    const about = Object.entries(fault)
      .filter(([name]) => name !== "id" && name !== "kind" && name !== "atMs")
      .map(([name, value]) => `${name}=${typeof value === "number" ? Math.round(value) : value}`);
    world.trace.note(world.nowMs, fault.id, kind, about.join(" "));
  }
}

const OF_TRANSPORT: ReadonlySet<string> = new Set<TransportFault["kind"]>([
  "broker-messages",
  "broker-state",
  "queue-lost",
  "malformed",
  "broker-cut",
  "broker-network",
  "locks",
  "transport",
]);

function isOfTransport(fault: Fault): fault is Fault & TransportFault {
  return OF_TRANSPORT.has(fault.kind);
}

function nameOf(fault: TransportFault): string {
  switch (fault.kind) {
    case "broker-messages":
      return `broker ${fault.effect === "delayMs" ? "delay" : fault.effect === "loseConfirm" ? "lost confirm" : fault.effect}`;
    case "broker-state":
      return `broker ${fault.state}`;
    case "queue-lost":
      return `broker queue ${fault.how}`;
    case "malformed":
      return "broker malformed message";
    case "broker-cut":
      return "broker connection cut";
    case "broker-network":
      return `broker network ${fault.mode}`;
    case "locks":
      return `locks ${fault.mode}`;
    case "transport":
      return "transport switched";
  }
}

const NOTHING = { fault: null, crash: null } as const;
/** A graceful stop that takes longer is ended by the supervisor. */
const SUPERVISOR_PATIENCE_MS = 90_000;

/** The supervisor of the processes: one a slot, started again when it ends. */
export class Slots {
  readonly #simulation: Simulation;
  readonly #current: (SimulatedProcess | null)[] = [];
  readonly #boots: number[] = [];
  readonly #due: (Code | null)[] = [];
  readonly all: SimulatedProcess[] = [];
  #healed = false;
  #closing = false;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  start(slot: number, wished: Code): void {
    const code = this.#healed ? "good" : wished;
    this.#due[slot] = null;
    const number = (this.#boots[slot] ?? 0) + 1;
    this.#boots[slot] = number;
    const unloadable = new Set(code === "broken" ? BUNDLES.slice(0, 1) : []);
    const process = new SimulatedProcess(this.#simulation, { slot, number, unloadable });
    this.#current[slot] = process;
    this.#simulation.health.restarted(slot);
    this.all.push(process);
  }

  /** The process that runs in a slot now. */
  at(slot: number): SimulatedProcess | null {
    const process = this.#current[slot];
    return process?.alive === true ? process : null;
  }

  alive(): readonly SimulatedProcess[] {
    return this.#current.filter((process): process is SimulatedProcess => process?.alive === true);
  }

  restart(slot: number, how: { readonly restartMs: number; readonly code: Code }): void {
    if (slot === CLIENT || this.#closing) return;
    this.#due[slot] = how.code;
    // One that was still ending when the world healed does not stay away.
    const restartMs = this.#healed ? Math.min(how.restartMs, 100) : how.restartMs;
    this.#simulation.world.after(restartMs, () => {
      if (this.#due[slot] === how.code && this.at(slot) === null && !this.#closing) this.start(slot, how.code);
    });
  }

  stop(process: SimulatedProcess, how: { readonly restartMs: number; readonly code: Code }): void {
    const { world } = this.#simulation;
    void process.stop().then(() => this.restart(process.slot, how));
    world.after(SUPERVISOR_PATIENCE_MS, () => {
      if (!process.alive) return;
      process.kill();
      this.restart(process.slot, how);
    });
  }

  noteLook({ caller, sentAtMs }: Call): void {
    const process = this.#current[caller.slot];
    if (process?.name === caller.name) process.lookedAtMs = sentAtMs;
  }

  /** Every slot runs, with code that can load everything. */
  heal(): void {
    this.#healed = true;
    for (let slot = 0; slot < this.#simulation.plan.settings.slots; slot++) {
      const process = this.at(slot);
      if (process === null) this.start(slot, "good");
      else if (process.host.unloadable.size > 0) this.stop(process, { restartMs: 100, code: "good" });
    }
  }

  /** No process is started again. */
  close(): void {
    this.#closing = true;
  }
}
