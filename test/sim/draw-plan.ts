import { drawTransport, drawTransportFaults } from "./draw-transport.ts";
import {
  CLIENT,
  type Draft,
  type Fault,
  type HandlerStep,
  type Plan,
  type Settings,
  TYPES,
  UNIQUE_KEYS,
  type UniqueKey,
  type Work,
} from "./plan.ts";
import { type Stream, subStream } from "./random-streams.ts";

/** Everything a seed decides beforehand. Each kind of fault is on or off as a whole: many bugs need few kinds. */
export function drawPlan(seed: number): Plan {
  const transportStream = subStream(seed, "transport");
  const settings = {
    ...drawSettings(subStream(seed, "settings")),
    processes: subStream(seed, "isolation").chance(0.4),
    transport: drawTransport(transportStream),
  };
  const work = addWishes(subStream(seed, "wishes"), drawWork(subStream(seed, "workload"), settings));
  const faults = drawFaults(subStream(seed, "faults"), settings);
  const farewell = drawFarewell(subStream(seed, "farewells"), settings);
  return {
    seed,
    settings,
    work: [
      ...work.map((item, index) => ({ id: `w${index}`, ...item }) as Work),
      ...farewell.work.map((item, index) => ({ id: `x${index}`, ...item }) as Work),
    ],
    faults: [
      ...faults.map((item, index) => ({ id: `f${index}`, ...item }) as Fault),
      ...farewell.faults.map((item, index) => ({ id: `g${index}`, ...item }) as Fault),
      ...drawTransportFaults(transportStream, settings).map((item, index) => ({ id: `b${index}`, ...item }) as Fault),
    ],
  };
}

function drawSettings(stream: Stream): Omit<Settings, "processes" | "transport"> {
  const pace = stream.pick([
    { leaseMs: 6_000, renewalMs: 1_000, recoveryMs: 1_000, chaosMs: stream.between(12_000, 30_000) },
    { leaseMs: 6_000, renewalMs: 1_000, recoveryMs: 1_000, chaosMs: stream.between(12_000, 30_000) },
    { leaseMs: 6_000, renewalMs: 1_000, recoveryMs: 1_000, chaosMs: stream.between(12_000, 30_000) },
    { leaseMs: 12_000, renewalMs: 2_000, recoveryMs: 2_000, chaosMs: stream.between(20_000, 50_000) },
    { leaseMs: 60_000, renewalMs: 10_000, recoveryMs: 10_000, chaosMs: stream.between(90_000, 130_000) },
  ]);
  return {
    ...pace,
    slots: stream.pick([1, 2, 2, 3, 3]),
    concurrency: stream.pick([1, 2, 2, 3, 3, 6]),
    shutdownTimeoutMs: stream.pick([500, 2_000, 5_000]),
    latencyMs: stream.pick([
      { least: 0.1, most: 1 },
      { least: 0.5, most: 10 },
      { least: 5, most: 120 },
    ]),
    drift: stream.pick([0, 0.001, 0.01]),
    narrow: stream.whole(1, 2),
  };
}

const ENDS = [
  "returns",
  "unstorable",
  "throws",
  "permanent",
  "retry-after",
  "hangs",
  "ignores-abort",
  "thread-dies",
  "kills-process",
] as const;

function drawWork(stream: Stream, { chaosMs, leaseMs }: Settings): Draft<Work>[] {
  // A seed knows only some ways to end beside the good one.
  const ends = ENDS.filter((end) => end === "returns" || stream.chance(end === "throws" ? 0.5 : 0.3));
  const step = (): HandlerStep => ({
    takesMs: stream.pick([
      stream.between(1, 20),
      stream.between(20, 600),
      stream.between(200, 3_000),
      stream.chance(0.3) ? stream.between(0.5, 2) * leaseMs : stream.between(1, 400),
    ]),
    ends: stream.chance(0.5) ? "returns" : stream.pick(ends),
    progress: stream.chance(0.2),
  });
  const last = (): HandlerStep => ({ ...step(), ...(stream.chance(0.85) ? { ends: "returns" } : {}) });
  const work: Draft<Work>[] = [];
  const jobs = stream.chance(0.1) ? stream.whole(15, 30) : stream.whole(2, 12);
  const keys = stream.chance(0.3) ? stream.whole(1, 2) : 0;
  for (let index = 0; index < jobs; index++) {
    work.push({
      kind: "job",
      atMs: stream.chance(0.5) ? stream.between(0, 500) : stream.between(0, chaosMs),
      type: stream.pick(TYPES),
      delayMs: stream.chance(0.2) ? stream.between(100, 8_000) : 0,
      priority: stream.chance(0.2) ? stream.whole(-3, 3) : 0,
      key: keys > 0 && stream.chance(0.7) ? `key ${stream.whole(1, keys)}` : null,
      maxAttempts: stream.chance(0.2) ? stream.whole(1, 3) : null,
      timeoutMs: stream.chance(0.15) ? stream.whole(100, 3_000) : null,
      steps: [...Array.from({ length: stream.whole(0, 3) }, step), last()],
    });
  }
  const some = (share: number, most: number): number => (stream.chance(share) ? stream.whole(1, most) : 0);
  for (const kind of ["cancel", "requeue"] as const) {
    for (let left = some(0.4, 4); left > 0; left--) {
      work.push({ kind, atMs: stream.between(0, chaosMs), job: `w${stream.whole(0, jobs - 1)}` });
    }
  }
  for (let left = some(0.4, 2); left > 0; left--) {
    work.push({
      kind: "schedule",
      type: stream.pick(TYPES),
      intervalMs: stream.pick([2_000, 3_000, 7_000]),
      from: stream.chance(0.75) ? "epoch" : "finish",
      misfirePolicy: stream.pick(["latest", "none"]),
      concurrencyPolicy: stream.pick(["Forbid", "Allow"]),
      runOnStart: stream.chance(0.3),
    });
    if (stream.chance(0.3))
      work.push({ kind: "trigger", atMs: stream.between(0, chaosMs), schedule: `w${work.length - 1}` });
  }
  for (let left = some(0.2, 2); left > 0; left--) work.push({ kind: "revision", atMs: stream.between(0, chaosMs) });
  return work;
}

/** What few jobs ask for, in streams of its own: the rest of a seed stays as it is. */
function addWishes(stream: Stream, work: readonly Draft<Work>[]): Draft<Work>[] {
  const share = (worlds: number, jobs: number): number => (stream.chance(worlds) ? jobs : 0);
  const wanted = { snooze: share(0.3, 0.25), child: share(0.3, 0.3), unique: share(0.25, 0.6), once: share(0.3, 0.6) };
  return work.map((item) => {
    if (item.kind !== "job") return item;
    const steps = item.steps.map((step, index): HandlerStep => {
      const isLast = index === item.steps.length - 1;
      if (!isLast && stream.chance(wanted.snooze)) return { ...step, ends: "snoozes" };
      return stream.chance(wanted.child) ? { ...step, children: stream.whole(1, 2) } : step;
    });
    return {
      ...item,
      steps,
      ...(stream.chance(wanted.unique) ? { unique: stream.pick(Object.keys(UNIQUE_KEYS) as UniqueKey[]) } : {}),
      ...(stream.chance(wanted.once) ? { once: true } : {}),
    };
  });
}

/** Methods by the calls of them that a seed makes, roughly. */
const CALLED: readonly (readonly [method: string, most: number])[] = [
  ["claimJobs", 30],
  ["claimRecovered", 12],
  ["finishJob", 8],
  ["renewLeases", 20],
  ["markStarted", 4],
  ["reportProgress", 3],
  ["returnClaims", 3],
  ["findOwned", 2],
  ["loadDefinitions", 2],
  ["observeLeases", 20],
  ["recoverJobs", 2],
  ["promoteDue", 20],
  ["nextDueInMs", 20],
  ["loadDueSchedules", 20],
  ["applySteps", 6],
  ["wakeFinishedSchedules", 10],
  ["fireOnStart", 5],
  ["holdTerm", 30],
  ["releaseTerm", 2],
  ["registerWorker", 2],
  ["heartbeat", 6],
  ["deregisterWorker", 1],
];
const CLIENT_CALLED: readonly (readonly [method: string, most: number])[] = [
  ["insertJobs", 12],
  ["cancelJob", 4],
  ["requeueJob", 4],
  ["triggerSchedule", 1],
];

function drawFaults(stream: Stream, settings: Settings): Draft<Fault>[] {
  const { slots, chaosMs, leaseMs } = settings;
  const faults: Draft<Fault>[] = [];
  const slot = (): number => stream.whole(0, slots - 1);
  const atMs = (): number => stream.between(0, chaosMs);
  const restart = () => ({
    restartMs: stream.pick([50, 500, stream.between(500, leaseMs), stream.between(1, 2) * leaseMs]),
    code: stream.chance(0.15) ? ("broken" as const) : ("good" as const),
  });
  const each = (share: number, most: number, draw: () => Draft<Fault>): void => {
    if (!stream.chance(share)) return;
    for (let left = stream.whole(1, most); left > 0; left--) faults.push(draw());
  };
  const call = (by: number, table = by === CLIENT ? CLIENT_CALLED : CALLED) => {
    // Half of the faults aim at the few calls that carry an execution.
    const [method, most] =
      table === CALLED && stream.chance(0.5) ? stream.pick(CALLED.slice(0, 7)) : stream.pick(table);
    return { slot: by, method, nth: stream.whole(1, most) };
  };
  const broken = (by: () => number, effect: (Fault & { kind: "call" })["effect"], delayMs: () => number) => () =>
    ({ kind: "call", ...call(by()), effect, delayMs: delayMs() }) as const;
  const caller = (): number => (stream.chance(0.2) ? CLIENT : slot());
  each(
    0.3,
    8,
    broken(caller, "rejected", () => 0),
  );
  each(
    0.25,
    6,
    broken(caller, "serialization", () => 0),
  );
  each(
    0.35,
    8,
    broken(caller, "lost-request", () => stream.between(0, 500)),
  );
  each(
    0.45,
    10,
    broken(caller, "lost-reply", () => stream.between(0, 500)),
  );
  each(
    0.3,
    5,
    broken(caller, "late", () => stream.pick([50, 2_000, stream.between(0, 2) * leaseMs])),
  );
  each(
    0.3,
    6,
    broken(caller, "slow", () => stream.pick([200, 2_500, 6_000])),
  );
  each(0.25, 3, () => ({
    kind: "call",
    slot: slot(),
    method: "renewLeases",
    nth: stream.whole(1, 8),
    effect: "last-words",
    delayMs: stream.between(200, 2_800),
  }));
  // The write of an end arrives when its job is long with somebody else, or with the same worker again.
  each(0.35, 4, () => ({
    kind: "call",
    slot: slot(),
    method: "finishJob",
    nth: stream.whole(1, 8),
    effect: "late",
    delayMs: stream.pick([700, 1_500, 4_000]),
  }));
  // The owner comes back just when its job is taken from it.
  each(0.2, 2, () => ({
    kind: "outage",
    atMs: atMs(),
    forMs: leaseMs + stream.between(-0.5, 2.5) * settings.recoveryMs,
    slot: slot(),
    mode: stream.pick(["refused", "black-hole"]),
  }));
  each(0.2, 3, () => ({
    kind: "call",
    slot: slot(),
    method: "recoverJobs",
    nth: stream.whole(1, 3),
    effect: stream.pick(["slow", "late"]),
    delayMs: stream.between(500, 5_000),
  }));
  each(0.3, 3, () => ({
    kind: "outage",
    atMs: atMs(),
    forMs: stream.pick([100, 2_000, stream.between(0.5, 1.5) * leaseMs]),
    slot: stream.chance(0.5) ? slot() : null,
    mode: stream.pick(["refused", "black-hole"]),
  }));
  each(0.06, 1, () => ({ kind: "rollback", atMs: atMs(), windowMs: stream.pick([20, 300, 2_000]) }));
  each(0.15, 2, () => ({
    kind: "clock-step",
    atMs: atMs(),
    stepMs: stream.pick([-60_000, -5_000, -300, 300, 5_000, 60_000]),
  }));
  each(0.4, 4, () => ({
    kind: "crash",
    ...call(slot()),
    when: stream.pick(["before", "sent", "applied"]),
    ...restart(),
  }));
  each(0.3, 4, () => ({ kind: "kill", slot: slot(), atMs: atMs(), ...restart() }));
  for (const kind of ["pause", "block"] as const) {
    each(0.25, 3, () => ({
      kind,
      slot: slot(),
      atMs: atMs(),
      forMs: stream.pick([500, stream.between(0.3, 1) * leaseMs, stream.between(1, 2.2) * leaseMs, 18_000]),
    }));
  }
  each(0.3, 3, () => ({ kind: "stop", slot: slot(), atMs: atMs(), twice: stream.chance(0.3), ...restart() }));
  each(0.3, 2, () => ({
    kind: "deaf",
    slot: slot(),
    atMs: atMs(),
    forMs: stream.between(500, chaosMs),
    gapTold: stream.chance(0.5),
  }));
  return faults;
}

/**
 * A worker is asked to stop just when the database is lost to it, and what it gives back arrives after its recovery. Its
 * own patience must end before its lease does, and its last writes after somebody has looked for a whole one.
 */
function drawFarewell(stream: Stream, settings: Settings): { work: Draft<Work>[]; faults: Draft<Fault>[] } {
  const { slots, chaosMs, leaseMs, renewalMs, recoveryMs, shutdownTimeoutMs } = settings;
  if (slots < 2 || leaseMs > 6_000 || !stream.chance(0.15)) return { work: [], faults: [] };
  const slot = stream.whole(0, slots - 1);
  const atMs = stream.between(shutdownTimeoutMs, chaosMs - leaseMs);
  const stopAtMs = atMs + 0.9 * leaseMs - renewalMs - shutdownTimeoutMs - stream.between(0, 400);
  const job = (): Draft<Work> => ({
    kind: "job",
    atMs: Math.max(0, Math.min(atMs, stopAtMs) - stream.between(100, 1_000)),
    type: "work",
    delayMs: 0,
    priority: 0,
    key: null,
    maxAttempts: null,
    timeoutMs: null,
    steps: [
      { takesMs: 7_500, ends: "returns", progress: false },
      { takesMs: 50, ends: "returns", progress: false },
    ],
  });
  return {
    work: Array.from({ length: stream.whole(1, 2 * slots) }, job),
    faults: [
      { kind: "outage", slot, atMs, forMs: leaseMs + stream.between(0.8, 1.4) * recoveryMs, mode: "refused" },
      { kind: "stop", slot, atMs: Math.max(0, stopAtMs), twice: false, restartMs: 500, code: "good" },
    ],
  };
}
