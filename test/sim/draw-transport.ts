import type { Draft, Fault, Settings, SimulatedTransportName, TransportFault } from "./plan.ts";
import type { Stream } from "./random-streams.ts";

/** Four worlds in ten have a broker and locks; few of them begin without using them. */
export function drawTransport(stream: Stream): SimulatedTransportName | null {
  if (!stream.chance(0.4)) return null;
  return stream.chance(0.85) ? "rabbitmq" : "postgres";
}

/** Methods of the store and of the broker by the calls of them that a seed makes, roughly. */
const CALLED: readonly (readonly [method: string, most: number])[] = [
  ["claimDelivery", 15],
  ["deferDelivery", 2],
  ["relayBatch", 15],
  ["loadInstallation", 4],
  ["consumeMarker", 2],
  ["writeMarkers", 3],
  ["redispatchJobs", 3],
];
const PORTS: readonly (readonly [method: string, most: number])[] = [
  ["publish", 8],
  ["acknowledge", 10],
  ["release", 4],
  ["acquire", 10],
  ["release lock", 8],
];

/** What goes wrong on the way from the outbox to a claim, in a world that has a broker. */
export function drawTransportFaults(stream: Stream, settings: Settings): readonly Draft<Fault>[] {
  const { slots, chaosMs, leaseMs, transport } = settings;
  if (transport === null) return [];
  const faults: Draft<Fault>[] = [];
  const slot = (): number => stream.whole(0, slots - 1);
  const atMs = (): number => stream.between(0, chaosMs);
  const forMs = (): number => stream.pick([300, 3_000, stream.between(0.2, 1) * chaosMs]);
  const queue = (): string => stream.pick(["default", "default", "default", "narrow"]);
  const each = (share: number, most: number, draw: () => Draft<Fault>): void => {
    if (!stream.chance(share)) return;
    for (let left = stream.whole(1, most); left > 0; left--) faults.push(draw());
  };
  for (const effect of ["drop", "duplicate", "reorder", "loseConfirm"] as const) {
    each(0.3, 2, () => ({
      kind: "broker-messages",
      atMs: atMs(),
      forMs: forMs(),
      effect,
      strength: stream.pick([0.2, 0.7, 1]),
    }));
  }
  each(0.25, 2, () => ({
    kind: "broker-messages",
    atMs: atMs(),
    forMs: forMs(),
    effect: "delayMs",
    strength: stream.pick([20, 400, 4_000]),
  }));
  each(0.3, 2, () => ({
    kind: "broker-state",
    atMs: atMs(),
    forMs: stream.pick([300, 3_000, stream.between(0.5, 2) * leaseMs]),
    state: stream.pick(["blocked", "away"]),
  }));
  each(0.2, 2, () => ({ kind: "queue-lost", atMs: atMs(), queue: queue(), how: stream.pick(["removed", "purged"]) }));
  each(0.2, 2, () => ({ kind: "malformed", atMs: atMs(), queue: queue() }));
  each(0.35, 3, () => ({ kind: "broker-cut", atMs: atMs(), slot: slot() }));
  each(0.25, 2, () => ({
    kind: "broker-network",
    atMs: atMs(),
    forMs: stream.pick([500, 3_000, stream.between(0.5, 2) * leaseMs]),
    slot: slot(),
    mode: stream.pick(["silent", "away"]),
  }));
  each(0.45, 3, () => ({
    kind: "locks",
    atMs: atMs(),
    forMs: forMs(),
    mode: stream.pick(["unavailable", "hang", "grant-twice", "forget"]),
  }));
  let to: SimulatedTransportName = transport;
  each(0.25, 3, () => {
    to = to === "postgres" ? "rabbitmq" : "postgres";
    return { kind: "transport", atMs: atMs(), to } satisfies TransportFault;
  });
  each(0.4, 6, () => {
    const [method, most] = stream.pick(CALLED);
    return {
      kind: "call",
      slot: slot(),
      method,
      nth: stream.whole(1, most),
      effect: stream.pick([
        "rejected",
        "lost-request",
        "lost-reply",
        "slow",
        method === "claimDelivery" ? "late" : "slow",
      ] as const),
      delayMs: stream.pick([50, 400, 2_500]),
    };
  });
  each(0.45, 4, () => {
    const [method, most] = stream.pick(stream.chance(0.5) ? CALLED : PORTS);
    return {
      kind: "crash",
      slot: slot(),
      method,
      nth: stream.whole(1, most),
      when: stream.pick(["before", "sent", "applied"]),
      restartMs: stream.pick([50, 500, stream.between(1, 2) * leaseMs]),
      code: "good",
    };
  });
  return faults;
}
