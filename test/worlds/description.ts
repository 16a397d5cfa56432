import type { DispatchToken, WorkerId } from "../../runtime/core/ids.ts";
import type { Execution } from "../../runtime/protocol/execution.ts";
import type { ClaimedJob, Finish, FinishOutcome, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import type { LeaseObservation } from "../../runtime/protocol/ports/leases.ts";
import type { Call } from "./network.ts";
import type { WorldProcess } from "./process.ts";
import type { World } from "./world.ts";

/** Ages beyond this make no difference: longer than a lease and than the longest gap between looks. */
const OLD_MS = 90_000;

/**
 * Everything that the future of a world depends on, as a text: worlds with the same text go on the same way. Tokens and
 * workers stand by their order, times by their age, and the two processes may change places.
 */
export function describeWorld(world: World): string {
  const [a, b] = world.processes as [WorldProcess, WorldProcess];
  const one = describe(world, [a, b]);
  const other = describe(world, [b, a]);
  return [one, other].sort()[0] ?? one;
}

function describe(world: World, order: readonly WorldProcess[]): string {
  const { row, safety, nowMs } = world;
  const names = new Names(order);
  const tokens = collectTokens(world);
  const t = (token: DispatchToken | null): number => (token === null ? -1 : tokens.indexOf(token));
  const age = (ms: number): number => Math.min(OLD_MS, nowMs - ms) / 1000;
  const counter = ({ token, leaseCounter }: Pick<LeaseObservation, "token" | "leaseCounter">): string =>
    token === row.token && leaseCounter === row.leaseCounter ? "=" : "<";
  const live = new Set(tokens);

  const parts: unknown[] = [
    row.state,
    row.hold,
    t(row.token),
    t(row.releasedToken !== null && live.has(row.releasedToken) ? row.releasedToken : null),
    Math.max(0, row.runAtMs - world.database.nowMs()) / 1000,
    row.workerId === null ? "-" : names.of(row.workerId),
    row.startedAtMs !== null,
    row.recovered,
    row.cancelRequested,
    row.failures,
    row.lost,
    row.lostUnstarted,
    row.returns,
    row.attempts.flatMap(({ token, workerId, outcome, error }) =>
      live.has(token) ? [`${t(token)}${names.of(workerId)}${outcome}${error}`] : [],
    ),
    t(safety.minted),
    t(safety.claimed),
    safety.cancelAnswered,
    [...safety.landed].filter((token) => live.has(token)).map(t),
    world.messages.map(t),
    world.faults,
    world.requeues,
    world.looks.map((look) => [
      (look.answeredMs - look.askedMs) / 1000,
      age(look.answeredMs),
      look.seen && [t(look.seen.token), counter(look.seen)],
    ]),
  ];
  for (const process of order) {
    const executions = [...process.executions].map((execution) => describeExecution(execution, process, { t, age }));
    parts.push([process.claiming, process.doubt, process.clearing, process.leases.failing, executions.sort()]);
  }
  parts.push(world.network.calls.map((call) => describeCall(call, { t, age, counter, names })).sort());
  return JSON.stringify(parts);
}

function collectTokens({ row, network, processes, messages, looks, safety }: World): DispatchToken[] {
  const tokens = new Set<DispatchToken>(messages);
  const add = (token: DispatchToken | null | undefined): void => {
    if (token !== null && token !== undefined) tokens.add(token);
  };
  add(row.token);
  add(safety.minted);
  add(safety.claimed);
  for (const { seen } of looks) add(seen?.token);
  for (const { executions } of processes) for (const { token } of executions) add(token);
  for (const call of network.calls) for (const token of tokensOf(call)) add(token);
  return [...tokens].sort((left, right) => (left < right ? -1 : 1));
}

/** Parameters name tokens in few ways, and so do answers. */
function tokensOf({ parameters, answer }: Call): DispatchToken[] {
  const tokens: DispatchToken[] = [];
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) visit(item);
    else if (typeof value === "object" && value !== null) {
      for (const [key, item] of Object.entries(value)) {
        if (key === "token") tokens.push(item as DispatchToken);
        else visit(item);
      }
    }
  };
  visit(parameters);
  if (answer !== null) visit(answer.settled);
  return tokens;
}

interface Terms {
  readonly t: (token: DispatchToken | null) => number;
  readonly age: (ms: number) => number;
}

function describeExecution(execution: Execution, process: WorldProcess, { t, age }: Terms): string {
  const { token, phase, abortReason, confirmedMs, startWritten, startedMs, job } = execution;
  const record = process.handlers.get(token);
  const handler = record === undefined ? "never" : (record.ended ?? "runs");
  const isHeld = process.leases.held().has(execution);
  return [t(token), phase, abortReason, age(confirmedMs), startWritten, startedMs !== null, handler, isHeld]
    .concat([job.failures, job.lost, job.recovered])
    .join();
}

function describeCall(
  { caller, method, parameters, sentMs, answer, waiting }: Call,
  { t, age, counter, names }: Terms & { readonly counter: (seen: LeaseObservation) => string; readonly names: Names },
): string {
  const value = (item: unknown): unknown => {
    if (Array.isArray(item)) return item.map(value);
    if (typeof item !== "object" || item === null) return null;
    if ("leaseCounter" in item) return [t((item as LeaseObservation).token), counter(item as LeaseObservation)];
    if ("ranMs" in item) {
      const { token, outcome, next, charge, ranMs } = item as Finish;
      return [t(token), outcome, next, charge, ranMs === null];
    }
    if ("failures" in item) {
      const { token, failures, lost, recovered } = item as ClaimedJob;
      return [t(token), failures, lost, recovered];
    }
    if ("token" in item) {
      const { token, runningMs, cancelRequested } = item as Ownership & Readonly<Record<string, unknown>>;
      return [t(token), runningMs === null, cancelRequested];
    }
    return Object.values(item).map(value);
  };
  const told =
    answer === null
      ? "sent"
      : typeof answer.settled === "string"
        ? (answer.settled as FinishOutcome)
        : value(answer.settled);
  return JSON.stringify([names.of(caller as WorkerId), method, waiting ? age(sentMs) : "", value(parameters), told]);
}

/** Workers by the order in which they are met; the processes of now come first. */
class Names {
  readonly #names = new Map<string, number>();

  constructor(order: readonly WorldProcess[]) {
    for (const { workerId } of order) this.of(workerId);
  }

  of(workerId: WorkerId): number {
    let name = this.#names.get(workerId);
    if (name === undefined) this.#names.set(workerId, (name = this.#names.size));
    return name;
  }
}
