import { setTimeout as delay } from "node:timers/promises";
import type { Databases } from "./databases.ts";
import type { Slot } from "./fleet.ts";
import { type LedgerWriter, monotonicUs } from "./ledger.ts";
import type { Fault, FaultKind } from "./plan.ts";
import type { FaultProxy } from "./proxy.ts";
import type { Services } from "./services.ts";

/** Longer than a graceful stop may take; after it the process is killed, and the ledger says so. */
const STOP_LIMIT_MS = 40_000;
/** From its start until a process does its work, on a busy machine. */
const WORKING_MS = 5_000;

export interface NemesisPorts {
  readonly slots: ReadonlyMap<string, Slot>;
  readonly databases: Databases;
  /** Null: the run is on PostgreSQL alone. */
  readonly services: Services | null;
  readonly ledger: LedgerWriter;
  /** Brings a changed revision into force; rejects when the database does not answer. */
  readonly applyRevision: () => Promise<void>;
  readonly note: (text: string) => void;
}

/** Carries out a plan. Slots that are busy with one fault are left out of the next. */
export class Nemesis {
  readonly #ports: NemesisPorts;
  readonly #busy = new Set<string>();
  readonly #running = new Set<Promise<void>>();
  readonly #counts = new Map<string, number>();
  readonly #healed = new AbortController();
  #failure: unknown = null;

  constructor(ports: NemesisPorts) {
    this.#ports = ports;
  }

  /** How often each kind was carried out. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  async run(plan: readonly Fault[], signal: AbortSignal): Promise<void> {
    const began = performance.now();
    for (const fault of plan) {
      const waitMs = fault.atMs - (performance.now() - began);
      if (waitMs > 0) await delay(waitMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      if (this.#failure !== null) throw this.#failure;
      this.#begin(fault);
    }
  }

  /** Ends every fault, leaves no process stopped or away, and waits until that is so. */
  async heal(): Promise<void> {
    this.#healed.abort();
    await Promise.all(this.#running);
    for (const slot of this.#ports.slots.values()) {
      slot.signal("SIGCONT", { andChildren: true });
      await slot.proxy.setMode({ kind: "pass" });
      await slot.brokerProxy?.setMode({ kind: "pass" });
      slot.start();
    }
    if (this.#failure !== null) throw this.#failure;
  }

  #begin(fault: Fault): void {
    const targets = this.#targetsOf(fault);
    if (targets.some((target) => this.#busy.has(target))) return;
    // A process that has not come up yet has nothing to lose; most faults are for those that work.
    const target = "slot" in fault ? this.#ports.slots.get(fault.slot) : undefined;
    const isOfNetwork = fault.kind === "network" || fault.kind === "broker-network";
    if (target !== undefined && target.uptimeMs < WORKING_MS && !isOfNetwork) return;
    for (const target of targets) this.#busy.add(target);
    const name = nameOf(fault);
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    const slot = "slot" in fault ? fault.slot : null;
    this.#ports.ledger.write({ e: "fault", at: monotonicUs(), fault: name, slot, detail: JSON.stringify(fault) });
    const running = this.#carryOut(fault)
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => {
        for (const target of targets) this.#busy.delete(target);
        this.#running.delete(running);
      });
    this.#running.add(running);
  }

  #targetsOf(fault: FaultKind): readonly string[] {
    if (fault.kind === "broker-network") return [`${fault.slot} to the broker`];
    if (fault.kind === "locks") return [`lock node ${fault.node}`];
    if (fault.kind === "broker") return ["broker"];
    if ("slot" in fault) return [fault.slot];
    if (fault.kind === "postgres" || fault.kind === "outage" || fault.kind === "pooler") return ["database"];
    return ["roll"];
  }

  async #carryOut(fault: FaultKind): Promise<void> {
    const { slots, databases, services } = this.#ports;
    const slot = "slot" in fault ? slots.get(fault.slot) : undefined;
    switch (fault.kind) {
      case "kill":
        await slot?.end("SIGKILL", STOP_LIMIT_MS);
        await this.#wait(fault.downMs);
        return slot?.start();
      case "terminate":
        if (slot !== undefined) await this.#terminate(slot, STOP_LIMIT_MS);
        await this.#wait(fault.downMs);
        return slot?.start();
      case "terminate-kill":
        if (slot !== undefined) await this.#terminate(slot, fault.graceMs);
        await this.#wait(fault.downMs);
        return slot?.start();
      case "stop":
      case "freeze":
        return slot === undefined ? undefined : this.#pause(slot, fault.kind, fault.forMs);
      case "network":
        return slot === undefined ? undefined : this.#disturb(slot, fault);
      case "postgres":
        return databases.restartPostgres(fault.how);
      case "outage":
        return this.#outage(fault.forMs);
      case "pooler":
        return databases.restartPooler(fault.downMs);
      case "broker-network":
        return slot?.brokerProxy == null ? undefined : this.#setFor(slot.brokerProxy, fault);
      case "broker":
        return services?.restartBroker(fault.how, this.#wait(fault.downMs));
      case "locks":
        return services?.disturbLocks(fault.node, fault.how, this.#wait(fault.forMs));
      case "roll":
        return this.#roll();
    }
  }

  async #terminate(slot: Slot, limitMs: number): Promise<void> {
    if (await slot.end("SIGTERM", limitMs)) return;
    if (limitMs === STOP_LIMIT_MS)
      this.#ports.note(`${slot.name} did not end within ${STOP_LIMIT_MS / 1_000} s of SIGTERM`);
    await slot.end("SIGKILL", STOP_LIMIT_MS);
  }

  async #pause(slot: Slot, kind: "stop" | "freeze", forMs: number): Promise<void> {
    const andChildren = kind === "freeze";
    const from = monotonicUs();
    slot.signal("SIGSTOP", { andChildren });
    await this.#wait(forMs);
    slot.signal("SIGCONT", { andChildren });
    this.#ports.ledger.write({ e: "window", kind, slot: slot.name, from, to: monotonicUs() });
  }

  async #disturb(slot: Slot, fault: FaultKind & { readonly kind: "network" }): Promise<void> {
    const from = monotonicUs();
    await this.#setFor(slot.proxy, fault);
    const isCutOff = fault.mode.kind === "black-hole" || fault.mode.kind === "one-way";
    if (isCutOff) this.#ports.ledger.write({ e: "window", kind: "cut-off", slot: slot.name, from, to: monotonicUs() });
  }

  async #setFor(
    proxy: FaultProxy,
    { mode, forMs }: Pick<FaultKind & { readonly kind: "network" }, "mode" | "forMs">,
  ): Promise<void> {
    await proxy.setMode(mode);
    await this.#wait(forMs);
    await proxy.setMode({ kind: "pass" });
  }

  /** Nobody reaches the database for a while. Slots with a network fault of their own keep it. */
  async #outage(forMs: number): Promise<void> {
    const taken = [...this.#ports.slots.values()].filter(({ name }) => !this.#busy.has(name));
    for (const { name } of taken) this.#busy.add(name);
    for (const { proxy } of taken) await proxy.setMode({ kind: "refuse" });
    await this.#wait(forMs);
    for (const { proxy } of taken) await proxy.setMode({ kind: "pass" });
    for (const { name } of taken) this.#busy.delete(name);
  }

  /** A changed revision, and then every process anew, one after another. */
  async #roll(): Promise<void> {
    try {
      await this.#ports.applyRevision();
    } catch (error) {
      this.#ports.note(
        `a revision was not applied, as it may be meanwhile: ${error instanceof Error ? error.message : error}`,
      );
    }
    for (const slot of this.#ports.slots.values()) {
      if (this.#healed.signal.aborted) return;
      if (this.#busy.has(slot.name)) continue;
      this.#busy.add(slot.name);
      await this.#terminate(slot, STOP_LIMIT_MS);
      slot.start();
      this.#busy.delete(slot.name);
      await this.#wait(500);
    }
  }

  async #wait(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#healed.signal }).catch(() => {});
  }
}

function nameOf(fault: FaultKind): string {
  if (fault.kind === "network") return `network ${fault.mode.kind}`;
  if (fault.kind === "broker-network") return `broker network ${fault.mode.kind}`;
  if (fault.kind === "broker" || fault.kind === "locks") return `${fault.kind} ${fault.how}`;
  if (fault.kind === "postgres") return `postgres ${fault.how}`;
  return fault.kind;
}
