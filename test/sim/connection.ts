import type { MemoryStore } from "../../runtime/adapters/memory/store.ts";
import { RejectedError, UnknownOutcomeError } from "../../runtime/protocol/ports/errors.ts";
import type { Finish } from "../../runtime/protocol/ports/jobs.ts";
import type { PublishBatch } from "../../runtime/protocol/ports/outbox.ts";
import { describeAnswer } from "./answers.ts";
import type { Owner } from "./event-heap.ts";
import type { Fault } from "./plan.ts";
import { TransactionLostError } from "./relay-turns.ts";
import type { Simulation } from "./simulation.ts";

/** Who calls the database. */
export interface Caller extends Owner {
  readonly name: string;
  /** It was told to end in the middle of things, so whatever it still does is nobody's fault. */
  readonly crashed: boolean;
  monotonicMs(): number;
  crash(fault: Fault & { readonly kind: "crash" }): void;
  /** An answer has reached it. */
  heard(call: Call, answer: unknown, sentMs: number): void;
}

/** One call of the store, as it is carried out. */
export interface Call {
  readonly caller: Caller;
  readonly method: string;
  readonly args: readonly unknown[];
  /** What was asked when its caller had given up or died since. */
  readonly isLate: boolean;
  /** Of the world. */
  readonly sentAtMs: number;
}

/** The adapter gives up on a call then, and its outcome is unknown. */
const CALL_BOUND_MS = 10_000;
const RENEWAL_BOUND_MS = 3_000;
/** A transaction that waits for its caller in the middle. */
const TURN_BOUND_MS = 45_000;
const NEVER = new Promise<never>(() => {});
/** What PostgreSQL does not take; handlers of a world bring it on purpose. */
export const UNSTORABLE = "\\u0000";

type CallFault = Fault & { readonly kind: "call" };
type Method = (...args: readonly unknown[]) => Promise<unknown>;

/** The store as one process reaches it: over a network, with everything that may happen to a call on its way. */
export function connectStore(simulation: Simulation, caller: Caller): MemoryStore {
  const methods = Object.keys(simulation.store) as (keyof MemoryStore)[];
  return Object.fromEntries(
    methods.map((method) => {
      const carryOut = method === "relayBatch" ? turnOf(simulation, caller) : (simulation.store[method] as Method);
      return [
        method,
        (...args: unknown[]) =>
          send(simulation, { caller, method, args, isLate: false, sentAtMs: simulation.world.nowMs }, carryOut),
      ];
    }),
  ) as unknown as MemoryStore;
}

function turnOf({ store, turns }: Simulation, caller: Caller): Method {
  return (limit, publish) => store.relayBatch(limit as number, turns.publishThrough(caller, publish as PublishBatch));
}

function boundOf(method: string): number {
  if (method === "renewLeases") return RENEWAL_BOUND_MS;
  return method === "relayBatch" ? TURN_BOUND_MS : CALL_BOUND_MS;
}

function send(simulation: Simulation, call: Call, carryOut: Method): Promise<unknown> {
  const { caller, method } = call;
  if (!caller.alive) {
    simulation.auditor.calledAfterEnd(call);
    return NEVER;
  }
  const { fault, crash } = simulation.faults.onCall(caller.slot, method === "insertJobsOnce" ? "insertJobs" : method);
  if (crash?.when === "before") {
    caller.crash(crash);
    return NEVER;
  }
  return new Promise((resolve, reject) => {
    const journey = new Journey(simulation, call, { carryOut, crash, resolve, reject });
    journey.start(fault);
    if (crash?.when === "sent") caller.crash(crash);
  });
}

interface Ways {
  readonly carryOut: Method;
  readonly crash: (Fault & { readonly kind: "crash" }) | null;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** One call on its way to the database and back. */
class Journey {
  readonly #simulation: Simulation;
  readonly #call: Call;
  readonly #ways: Ways;
  readonly #sentMs: number;
  /** Of the world: the caller waits no longer. */
  readonly #limitMs: number;

  constructor(simulation: Simulation, call: Call, ways: Ways) {
    this.#simulation = simulation;
    this.#call = call;
    this.#ways = ways;
    this.#sentMs = call.caller.monotonicMs();
    this.#limitMs = simulation.world.nowMs + boundOf(call.method);
  }

  start(fault: CallFault | null): void {
    const slownessMs = fault?.effect === "slow" ? fault.delayMs / 2 : 0;
    this.#simulation.world.after(this.#simulation.latencyMs() + slownessMs, () => this.#arrive(fault, slownessMs));
  }

  #arrive(fault: CallFault | null, slownessMs: number): void {
    const { world, faults, auditor } = this.#simulation;
    const call = this.#call;
    const latencyMs = this.#simulation.latencyMs();
    const outage = faults.outageOf(call.caller.slot);
    if (outage === "refused") {
      this.#fail(new RejectedError("PostgreSQL did not answer: ECONNREFUSED"), latencyMs);
      return;
    }
    if (outage === "black-hole") {
      auditor.outcomeUnknown(call, false);
      this.#fail(lostConnection(), CALL_BOUND_MS);
      return;
    }
    switch (fault?.effect) {
      case "rejected":
        this.#fail(new RejectedError("PostgreSQL did not answer: ECONNRESET"), latencyMs);
        break;
      case "serialization":
        this.#fail(new RejectedError("could not serialize access", { sqlState: "40001" }), latencyMs);
        break;
      case "lost-request":
        auditor.outcomeUnknown(call, false);
        this.#fail(lostConnection(), fault.delayMs);
        break;
      case "lost-reply":
        auditor.outcomeUnknown(call, true);
        this.#carryOut({ isLate: false, replyMs: null });
        this.#fail(lostConnection(), fault.delayMs);
        break;
      case "late":
        auditor.outcomeUnknown(call, true);
        this.#fail(lostConnection(), fault.delayMs / 2);
        world.after(fault.delayMs, () => this.#carryOut({ isLate: true, replyMs: null }));
        break;
      case "last-words":
        this.#carryOut({ isLate: false, replyMs: fault.delayMs });
        faults.cut(call.caller.slot);
        break;
      default:
        this.#carryOut({ isLate: !call.caller.alive, replyMs: latencyMs + slownessMs });
    }
  }

  /** The statement, as one step; its answer sets out at once, unless it is lost. */
  #carryOut({ isLate, replyMs }: { readonly isLate: boolean; readonly replyMs: number | null }): void {
    const { world, auditor } = this.#simulation;
    const call: Call = { ...this.#call, isLate };
    const refusal = refuse(call);
    if (refusal !== null) {
      if (replyMs !== null) this.#fail(refusal, replyMs);
      return;
    }
    const answer = this.#ways.carryOut(...call.args);
    auditor.applied(call);
    const { crash } = this.#ways;
    if (crash?.when === "applied" && call.caller.alive) call.caller.crash(crash);
    answer.then(
      (value) => {
        // Its turn has only now come to its end.
        if (call.method === "relayBatch") auditor.applied(call);
        auditor.answered(call, value);
        if (replyMs !== null) this.#reply(value, replyMs);
        else this.#note(`${describeAnswer(call, value)} (unheard)`);
      },
      (error: unknown) => {
        if (error instanceof TransactionLostError) this.#fail(lostConnection(), 0);
        else auditor.storeBroke(call, error);
      },
    );
    if (replyMs !== null && world.nowMs + replyMs >= this.#limitMs) auditor.outcomeUnknown(call, true);
  }

  #reply(answer: unknown, delayMs: number): void {
    const { world } = this.#simulation;
    if (world.nowMs + delayMs >= this.#limitMs) {
      this.#fail(lostConnection(), delayMs);
      return;
    }
    const call = this.#call;
    world.after(
      delayMs,
      () => {
        this.#note(describeAnswer(call, answer));
        call.caller.heard(call, answer, this.#sentMs);
        this.#ways.resolve(answer);
      },
      call.caller,
    );
  }

  #fail(error: Error, delayMs: number): void {
    const { world } = this.#simulation;
    world.after(
      Math.max(0, Math.min(delayMs, this.#limitMs - world.nowMs)),
      () => {
        this.#note(error.message);
        this.#ways.reject(error);
      },
      this.#call.caller,
    );
  }

  #note(result: string): void {
    const { world } = this.#simulation;
    world.trace.note(world.nowMs, this.#call.caller.name, this.#call.method, result);
  }
}

function lostConnection(): Error {
  return new UnknownOutcomeError("the connection to PostgreSQL was lost");
}

function refuse({ method, args }: Call): Error | null {
  if (method !== "finishJob") return null;
  const { result } = args[1] as Finish;
  if (result === null || !result.includes(UNSTORABLE)) return null;
  return new RejectedError("unsupported Unicode escape sequence", { sqlState: "22P05" });
}
