import type { LockOutcome } from "../../runtime/protocol/ports/transport.ts";
import type { TransportFault } from "./plan.ts";
import type { Stream } from "./random-streams.ts";
import type { SimulatedProcess } from "./simulated-process.ts";
import type { Simulation } from "./simulation.ts";

const HOP_MS = 0.3;
/** A lock is extended while its process lives and runs out so long after its death. */
const RUNS_OUT_MS = 10_000;
/** The deadlines of an attempt whose lock service refuses, and of one that hears nothing. */
const UNAVAILABLE_MS = 300;
const HANGS_MS = 2_500;
const NEVER = new Promise<never>(() => {});

type LockFault = TransportFault & { readonly kind: "locks" };

interface Held {
  readonly by: SimulatedProcess;
}

/** A lock service that may do everything that no fence may rely on. */
export class SimulatedLocks {
  readonly #simulation: Simulation;
  readonly #stream: Stream;
  readonly #held = new Map<string, Held>();
  #mode: LockFault["mode"] | null = null;

  constructor(simulation: Simulation, stream: Stream) {
    this.#simulation = simulation;
    this.#stream = stream;
  }

  bringAbout({ mode, forMs }: LockFault): void {
    if (mode === "forget") {
      this.#held.clear();
      return;
    }
    this.#mode = mode;
    this.#simulation.world.after(forMs, () => (this.#mode = null));
  }

  heal(): void {
    this.#mode = null;
  }

  acquire(process: SimulatedProcess, resource: string): Promise<LockOutcome> {
    const { world, faults, auditor } = this.#simulation;
    if (!process.alive) {
      auditor.portUsedAfterEnd(process, "acquire");
      return NEVER;
    }
    const { crash } = faults.onCall(process.slot, "acquire");
    if (crash?.when === "before") {
      process.crash(crash);
      return NEVER;
    }
    return new Promise((resolve) => {
      world.after(HOP_MS, () => {
        const { outcome, afterMs } = this.#try(process, resource);
        if (crash?.when === "applied" && process.alive) process.crash(crash);
        world.after(
          afterMs,
          () => {
            if (outcome.kind === "unavailable") auditor.lockUnavailable(process, resource);
            resolve(outcome);
          },
          process,
        );
      });
      if (crash?.when === "sent") process.crash(crash);
    });
  }

  #try(process: SimulatedProcess, resource: string): { readonly outcome: LockOutcome; readonly afterMs: number } {
    if (this.#mode === "unavailable") return { outcome: { kind: "unavailable" }, afterMs: UNAVAILABLE_MS };
    const afterMs = this.#mode === "hang" ? HANGS_MS : HOP_MS;
    if (this.#mode === "hang" && this.#stream.chance(0.5)) return { outcome: { kind: "unavailable" }, afterMs };
    if (this.#mode !== "grant-twice" && this.#isHeld(resource)) return { outcome: { kind: "busy" }, afterMs };
    const held = { by: process };
    this.#held.set(resource, held);
    return { outcome: { kind: "acquired", release: () => this.#release(held, resource) }, afterMs };
  }

  #isHeld(resource: string): boolean {
    const held = this.#held.get(resource);
    if (held === undefined) return false;
    return held.by.alive || this.#simulation.world.nowMs < held.by.endedAtMs + RUNS_OUT_MS;
  }

  #release(held: Held, resource: string): Promise<void> {
    const { faults, auditor } = this.#simulation;
    if (!held.by.alive) {
      auditor.portUsedAfterEnd(held.by, "release lock");
      return NEVER;
    }
    const { crash } = faults.onCall(held.by.slot, "release lock");
    if (crash?.when === "before") {
      held.by.crash(crash);
      return NEVER;
    }
    if (this.#held.get(resource) === held) this.#held.delete(resource);
    if (crash !== null) {
      held.by.crash(crash);
      return NEVER;
    }
    return Promise.resolve();
  }
}
