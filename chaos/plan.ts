import type { NetworkMode } from "./proxy.ts";
import { type SeededRandom, seededRandom } from "./random.ts";

export const LOCK_NODES = 3;

/** What a lock node suffers: `restart` loses every lock it held, `freeze` answers nobody, `refuse` lets nobody in. */
export type LockFault = "restart" | "freeze" | "refuse";

/** What is done to the processes, in the order of `atMs` from the begin of the run. */
export type Fault = { readonly atMs: number } & FaultKind;

export type FaultKind =
  | { readonly kind: "kill"; readonly slot: string; readonly downMs: number }
  | { readonly kind: "stop" | "freeze"; readonly slot: string; readonly forMs: number }
  | { readonly kind: "terminate"; readonly slot: string; readonly downMs: number }
  | { readonly kind: "terminate-kill"; readonly slot: string; readonly graceMs: number; readonly downMs: number }
  | { readonly kind: "network"; readonly slot: string; readonly mode: NetworkMode; readonly forMs: number }
  | { readonly kind: "postgres"; readonly how: "fast" | "immediate" | "kill" }
  | { readonly kind: "outage"; readonly forMs: number }
  | { readonly kind: "pooler"; readonly downMs: number }
  | { readonly kind: "broker-network"; readonly slot: string; readonly mode: NetworkMode; readonly forMs: number }
  | { readonly kind: "broker"; readonly how: "stop" | "kill"; readonly downMs: number }
  | { readonly kind: "locks"; readonly node: number; readonly how: LockFault; readonly forMs: number }
  | { readonly kind: "roll" };

export interface PlanSettings {
  readonly seed: number;
  readonly minutes: number;
  readonly leaseMs: number;
  readonly workers: readonly string[];
  readonly hasPooler: boolean;
  /** Whether workers are stopped together with their handler processes too. */
  readonly freezes: boolean;
  /** Whether there are a broker and lock nodes to be disturbed. */
  readonly isFull: boolean;
}

export const SERVER_SLOT = "server";

/** Every fault of a run, drawn from the seed before it begins. */
export function planFaults(settings: PlanSettings): readonly Fault[] {
  const random = seededRandom(settings.seed);
  const endMs = settings.minutes * 60_000;
  // Long leases need long pauses, and time in between in which something can be recovered.
  const [shortest, longest] = settings.leaseMs <= 15_000 ? [800, 4_000] : [3_000, 15_000];
  const faults: Fault[] = [];
  for (let atMs = 5_000; ; ) {
    atMs += random.between(shortest, longest);
    if (atMs >= endMs) return faults;
    const ofServices = settings.isFull && random.chance(35);
    faults.push({ atMs, ...(ofServices ? drawServiceFault(random, settings) : drawFault(random, settings)) });
  }
}

function drawFault(random: SeededRandom, settings: PlanSettings): FaultKind {
  const { leaseMs, workers } = settings;
  const worker = random.pick(workers);
  const anyone = random.chance(12) ? SERVER_SLOT : worker;
  const drawn = random.between(1, 100);
  if (drawn <= 18) return { kind: "kill", slot: anyone, downMs: random.between(0, 4_000) };
  if (drawn <= 38) {
    const kind = settings.freezes && random.chance(50) ? "freeze" : "stop";
    return {
      kind,
      slot: worker,
      forMs: Math.round(leaseMs * random.pick([0.3, 0.9, 1.4, 2, 2.8, ...(leaseMs > 15_000 ? [] : [5])])),
    };
  }
  if (drawn <= 46) return { kind: "terminate", slot: anyone, downMs: random.between(0, 2_000) };
  if (drawn <= 53) {
    return {
      kind: "terminate-kill",
      slot: anyone,
      graceMs: random.between(50, 3_000),
      downMs: random.between(0, 2_000),
    };
  }
  if (drawn <= 84) {
    return {
      kind: "network",
      slot: anyone,
      mode: drawMode(random),
      forMs: Math.round(leaseMs * random.pick([0.1, 0.4, 0.9, 1.5, 2.5])),
    };
  }
  if (drawn <= 93) return { kind: "postgres", how: random.pick(["fast", "immediate", "kill"] as const) };
  if (drawn <= 95) return { kind: "outage", forMs: Math.round(leaseMs * random.pick([0.3, 1.3])) };
  if (drawn <= 98 && settings.hasPooler) return { kind: "pooler", downMs: random.between(0, 3_000) };
  if (drawn <= 98) return { kind: "kill", slot: worker, downMs: 0 };
  return { kind: "roll" };
}

function drawServiceFault(random: SeededRandom, { leaseMs, workers }: PlanSettings): FaultKind {
  const slot = random.chance(12) ? SERVER_SLOT : random.pick(workers);
  const drawn = random.between(1, 100);
  if (drawn <= 55) {
    const forMs = Math.round(leaseMs * random.pick([0.1, 0.4, 0.9, 1.5, 2.5]));
    return { kind: "broker-network", slot, mode: drawMode(random), forMs };
  }
  if (drawn <= 63) {
    return { kind: "broker", how: random.pick(["stop", "kill"] as const), downMs: random.between(0, 10_000) };
  }
  return {
    kind: "locks",
    node: random.between(0, LOCK_NODES - 1),
    how: random.pick(["restart", "freeze", "refuse"] as const),
    forMs: Math.round(leaseMs * random.pick([0.2, 1, 3])),
  };
}

function drawMode(random: SeededRandom): NetworkMode {
  const drawn = random.between(1, 100);
  if (drawn <= 14) return { kind: "latency", ms: random.between(5, 400) };
  if (drawn <= 24) return { kind: "slow", bytesPerSecond: random.between(2_000, 50_000) };
  if (drawn <= 48) return { kind: "black-hole" };
  if (drawn <= 66) return { kind: "one-way", silent: random.pick(["up", "down"] as const) };
  if (drawn <= 76) return { kind: "reset" };
  if (drawn <= 86) return { kind: "refuse" };
  return { kind: "cut", afterBytes: random.between(1, 3_000) };
}
